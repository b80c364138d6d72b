"""Messages, tools' calls and results among them, are read strictly."""

from __future__ import annotations

from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve.message_fields import read_messages
from fedaigc_edge.serve.request import ToolCall

USER = {"role": "user", "content": "hello"}


def calling(**changes: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": '{"a": 1}', **changes.pop("function", {})}
    call = {"id": "call_1", "type": "function", "function": function, **changes}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "42"}


def test_a_call_and_its_result_are_read() -> None:
    _, call, result = read_messages([USER, calling(), RESULT])
    assert (call.role, call.content) == ("assistant", "")
    assert call.tool_calls == (ToolCall("call_1", "f", '{"a": 1}'),)
    assert (result.role, result.content, result.tool_call_id) == ("tool", "42", "call_1")
    assert list(call.texts()) == ["", "f", '{"a": 1}']


def test_a_streamed_calls_index_and_empty_arguments_are_taken() -> None:
    (_, call) = read_messages([USER, calling(index=0, function={"arguments": ""})])
    assert call.tool_calls[0].arguments == "{}"


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([RESULT], "messages[0].tool_call_id"),
        ([USER, {**RESULT, "tool_call_id": None}], "messages[1].tool_call_id"),
        ([USER, calling(), {**RESULT, "tool_call_id": "call_2"}], "messages[2].tool_call_id"),
        ([{**USER, "tool_calls": [{}]}], "messages[0].tool_calls"),
        ([{**USER, "tool_call_id": "x"}], "messages[0].tool_call_id"),
        ([USER, {"role": "assistant", "content": None}], "messages[1].content"),
        ([USER, {"role": "assistant", "tool_calls": "x"}], "messages[1].tool_calls"),
        ([USER, calling(type="web")], "messages[1].tool_calls[0].type"),
        ([USER, calling(id="")], "messages[1].tool_calls[0].id"),
        ([USER, calling(id=5)], "messages[1].tool_calls[0].id"),
        ([USER, calling(extra=1)], "messages[1].tool_calls[0]"),
        ([USER, calling(function={"name": "\ud800"})], "messages[1].tool_calls[0].function.name"),
        ([USER, calling(function={"arguments": "[]"})], "messages[1].tool_calls[0].function.arguments"),
        ([USER, calling(function={"arguments": "{"})], "messages[1].tool_calls[0].function.arguments"),
        (
            [USER, calling(function={"arguments": '{"a":' * 50_000})],
            "messages[1].tool_calls[0].function.arguments",
        ),
        (
            [USER, calling(function={"arguments": '{"a": "\\ud800"}'})],
            "messages[1].tool_calls[0].function.arguments",
        ),
        ([USER, calling(function={"arguments": {"a": 1}})], "messages[1].tool_calls[0].function.arguments"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_place(messages: list[Any], field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        read_messages(messages)
    assert caught.value.field == field
