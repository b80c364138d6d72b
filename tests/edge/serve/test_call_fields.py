"""What every generating route reads the same way."""

from __future__ import annotations

from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve.call_fields import check_labels, counts, include_usage, model_of


def refused(read: Any, *arguments: Any) -> str | None:
    with pytest.raises(RequestInvalid) as caught:
        read(*arguments)
    return caught.value.field


@pytest.mark.parametrize(
    ("body", "prompts", "expected"),
    [
        ({}, 1, (1, 1)),
        ({"n": None, "best_of": None}, 16, (1, 1)),
        ({"n": 16}, 1, (16, 1)),
        ({"n": 4}, 4, (4, 1)),
        ({"best_of": 16}, 1, (1, 16)),
        ({"n": 3, "best_of": 1}, 1, (3, 1)),
    ],
)
def test_choices_and_candidates_are_counted(
    body: dict[str, Any], prompts: int, expected: tuple[int, int]
) -> None:
    assert counts(body, prompts) == expected


@pytest.mark.parametrize(
    ("body", "prompts", "field"),
    [
        ({"n": 17}, 1, "n"),
        ({"n": 2}, 9, "n"),
        ({"n": True}, 1, "n"),
        ({"best_of": 17}, 1, "best_of"),
        ({"best_of": 2}, 2, "best_of"),
        ({"best_of": 2, "n": 2}, 1, "best_of"),
    ],
)
def test_more_than_the_device_makes_is_refused(body: dict[str, Any], prompts: int, field: str) -> None:
    assert refused(counts, body, prompts) == field


def test_a_model_is_named() -> None:
    assert model_of({"model": "tiny@3"}) == "tiny@3"
    assert refused(model_of, {}) == "model"


def test_usage_is_for_streams() -> None:
    assert include_usage({"stream_options": {"include_usage": True}}, True)
    assert not include_usage({}, True)
    assert refused(include_usage, {"stream_options": {}}, False) == "stream_options"


def test_labels_are_checked_and_kept_nowhere() -> None:
    check_labels({"user": "", "metadata": {"a": "b"}, "prompt_cache_key": None})
    assert refused(check_labels, {"safety_identifier": 5}) == "safety_identifier"
