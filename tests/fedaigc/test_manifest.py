"""A manifest is read only as the release key signed it, and always names its parent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.fingerprint import blob_digest
from fedaigc.identifiers import PolicyVersion
from fedaigc.manifest import PolicyManifest
from fedaigc.signing import SigningKey
from tests.learning_values import BASE_MODEL, ROUND

KEY = SigningKey.generate()
MANIFEST = PolicyManifest(
    version=PolicyVersion(3),
    parent=PolicyVersion(2),
    parent_manifest="ab" * 32,
    base_model=BASE_MODEL,
    adapter="cd" * 32,
    head="ef" * 32,
    round=ROUND,
    updates=2,
    epsilon_max=0.5575,
    minute=29_000_000,
)


def test_a_manifest_survives_its_signed_bytes_and_signing_is_repeatable() -> None:
    data = MANIFEST.signed(KEY)
    assert PolicyManifest.open(data, KEY.public) == MANIFEST
    assert MANIFEST.signed(KEY) == data
    assert PolicyManifest.digest(data) == blob_digest(data)


def test_another_key_or_a_changed_byte_is_refused() -> None:
    data = bytearray(MANIFEST.signed(KEY))
    with pytest.raises(VerificationFailed):
        PolicyManifest.open(bytes(data), SigningKey.generate().public)
    data[40] ^= 1
    with pytest.raises(VerificationFailed):
        PolicyManifest.open(bytes(data), KEY.public)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0, "parent": -1},
        {"parent": 1},
        {"parent_manifest": ""},
        {"version": 1, "parent": 0},
        {"adapter": "CD" * 32},
        {"head": ""},
        {"updates": 0},
        {"epsilon_max": float("inf")},
        {"round": "r-x"},
    ],
)
def test_a_manifest_out_of_chain_or_range_cannot_be_made(change: dict[str, Any]) -> None:
    with pytest.raises(VerificationFailed):
        replace(MANIFEST, **change)


def test_the_first_version_has_no_parent_manifest() -> None:
    first = replace(MANIFEST, version=PolicyVersion(1), parent=PolicyVersion(0), parent_manifest="")
    assert PolicyManifest.open(first.signed(KEY), KEY.public) == first
