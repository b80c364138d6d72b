"""A call is read out of the text however the text is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc_edge.serve.tool_call_text import Arguments, CallBegun, Part, Said, ToolCallText, read_tool_call

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(st.text(max_size=6), json_values, max_size=3)


def meaning(parts: list[Part]) -> tuple[str, str | None, str]:
    names = [part.name for part in parts if isinstance(part, CallBegun)]
    said = "".join(part.text for part in parts if isinstance(part, Said))
    made = "".join(part.text for part in parts if isinstance(part, Arguments))
    assert len(names) <= 1
    return said, names[0] if names else None, made


def cut(text: str, places: set[int]) -> list[str]:
    cuts = sorted(place % (len(text) + 1) for place in places)
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(arguments, st.sets(st.integers(0, 500), max_size=12), st.booleans(), st.sampled_from([None, 2]))
def test_name_and_arguments_are_found_whatever_the_cuts(
    values: dict[str, Any], places: set[int], must_call: bool, indent: int | None
) -> None:
    written = json.dumps(values, ensure_ascii=False)
    call = json.dumps({"name": "get_x", "arguments": values}, ensure_ascii=False, indent=indent)
    text = call if must_call else f"Let me < see.<tool_call>\n{call}\n</tool_call>"
    reader = ToolCallText(must_call)
    parts = [part for piece in cut(text, places) for part in reader.feed(piece)] + reader.end()
    said, name, made = meaning(parts)
    assert (said, name) == ("" if must_call else "Let me < see.", "get_x")
    assert json.loads(made) == values
    assert indent is not None or made == written
    assert meaning(list(read_tool_call(text, must_call))) == (said, name, made)


@given(st.text(st.sampled_from("<tol_ca>{x "), max_size=30), st.sets(st.integers(0, 99), max_size=6))
def test_text_without_a_call_is_said_as_it_stands(text: str, places: set[int]) -> None:
    reader = ToolCallText(must_call=False)
    parts = [part for piece in cut(text, places) for part in reader.feed(piece)] + reader.end()
    assert meaning(parts) == (text, None, "")
    assert not reader.called


@pytest.mark.parametrize("text", ['{"name": "get', "{", '{"name": "f", "arguments": '])
def test_a_call_that_was_cut_before_its_arguments_is_said_as_it_stands(text: str) -> None:
    assert meaning(list(read_tool_call(text, must_call=True))) == (text, None, "")
    tagged = f"<tool_call>\n{text}"
    assert meaning(list(read_tool_call(tagged, must_call=False))) == (tagged, None, "")


def test_arguments_that_were_cut_are_given_as_far_as_they_go() -> None:
    text = '{"name": "f", "arguments": {"a": [1, {"b": "}'
    assert meaning(list(read_tool_call(text, must_call=True))) == ("", "f", '{"a": [1, {"b": "}')


def test_no_text_is_in_a_repr() -> None:
    parts = read_tool_call('so<tool_call>{"name": "f_secret", "arguments": {"secret": 1}}', must_call=False)
    assert "secret" not in repr(parts)
