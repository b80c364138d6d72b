"""A pair is checked, survives its file, and shows nothing of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.preference import MAX_TEXT, Preference, Turn
from tests.learning_values import some_pairs

PAIR = replace(some_pairs(1)[0], commitments=(bytes(32), b"\x01" * 32), weight=0.5)


def test_a_pair_survives_json() -> None:
    assert Preference.from_json(PAIR.to_json()) == PAIR


def test_neither_repr_nor_errors_show_a_text() -> None:
    assert "fox" not in repr(PAIR) + repr(PAIR.prompt)
    with pytest.raises(VerificationFailed) as caught:
        Preference.from_json({**PAIR.to_json(), "rejected": PAIR.chosen})
    assert "adapter" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"chosen": ""},
        {"chosen": "x" * (MAX_TEXT + 1)},
        {"prompt": ()},
        {"prompt": (Turn("robot", "hello"),)},
        {"source": "guess"},
        {"weight": 0.0},
        {"weight": 2.0},
        {"commitments": (b"short",)},
        {"commitments": (bytes(32),) * 3},
    ],
)
def test_a_malformed_pair_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(VerificationFailed):
        replace(PAIR, **change)


@pytest.mark.parametrize("prompt", [[["user"]], ["text"], "text", [["user", "a", "b"]]])
def test_a_malformed_prompt_in_json_is_refused(prompt: Any) -> None:
    with pytest.raises(VerificationFailed):
        Preference.from_json({**PAIR.to_json(), "prompt": prompt})
