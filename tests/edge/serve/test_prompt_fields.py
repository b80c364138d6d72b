"""Prompts in OpenAI's four forms."""

from __future__ import annotations

from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve.prompt_fields import MAX_PROMPTS, read_prompts


@pytest.mark.parametrize(
    ("value", "prompts"),
    [
        ("hello", ("hello",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
        ([[1], "b"], ((1,), "b")),
        (["x"] * MAX_PROMPTS, ("x",) * MAX_PROMPTS),
    ],
)
def test_text_tokens_and_lists_of_both_are_read(value: Any, prompts: tuple[Any, ...]) -> None:
    assert read_prompts(value, "prompt") == prompts


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        [],
        [""],
        [[]],
        ["a", 5],
        [True],
        [[1, True]],
        [[-1]],
        [1.5],
        {"a": 1},
        7,
        ["\ud800"],
        [[2**31]],
        ["x"] * (MAX_PROMPTS + 1),
    ],
)
def test_anything_else_is_refused_by_the_fields_name(value: Any) -> None:
    with pytest.raises(RequestInvalid) as caught:
        read_prompts(value, "prompt")
    assert caught.value.field == "prompt"
