"""An update is read only as its node signed it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.fingerprint import blob_digest
from fedaigc.signing import SigningKey
from fedaigc.update import NodeUpdate
from tests.learning_values import a_plan, an_update

KEY = SigningKey.generate()
UPDATE = an_update(a_plan())


def test_an_update_survives_its_signed_bytes() -> None:
    data = UPDATE.signed(KEY)
    again = NodeUpdate.open(data, KEY.public)
    for name in vars(UPDATE):
        if name not in ("adapter_delta", "head_delta"):
            assert getattr(again, name) == getattr(UPDATE, name), name
    assert np.array_equal(again.head_delta, UPDATE.head_delta)
    assert again.adapter_delta.to_bytes() == UPDATE.adapter_delta.to_bytes()
    assert NodeUpdate.digest(data) == blob_digest(data)


def test_another_node_s_signature_is_refused() -> None:
    with pytest.raises(VerificationFailed):
        NodeUpdate.open(UPDATE.signed(SigningKey.generate()), KEY.public)


def test_a_changed_array_is_noticed() -> None:
    data = bytearray(UPDATE.signed(KEY))
    data[-1] ^= 1
    with pytest.raises(VerificationFailed):
        NodeUpdate.open(bytes(data), KEY.public)


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint_root": b"short"},
        {"mechanisms": ()},
        {"epsilon_spent": float("nan")},
        {"epsilon_spent": -1.0},
        {"moved": -1.0},
        {"delta": 2.0},
        {"head_delta": np.array([np.inf], np.float32)},
        {"head_delta": np.zeros((2, 2), np.float32)},
        {"base_model": "6b" * 32},
        {"node": "someone"},
    ],
)
def test_a_malformed_update_cannot_be_made(change: dict[str, Any]) -> None:
    with pytest.raises(VerificationFailed):
        replace(UPDATE, **change)
