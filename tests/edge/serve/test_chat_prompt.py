"""Conversations with tools, in a template's form and in plain words."""

from __future__ import annotations

import json

from fedaigc_edge.serve.chat_prompt import template_messages
from fedaigc_edge.serve.request import ChatMessage, ToolCall, ToolUse

TOOL = {"name": "get_weather", "description": "天气", "parameters": {"type": "object"}}
USE = ToolUse((TOOL,), ("get_weather",), must_call=False)
TALK = (
    ChatMessage("user", "Weather?"),
    ChatMessage("assistant", "", (ToolCall("call_1", "get_weather", '{"city": "Köln"}'),)),
    ChatMessage("tool", "rain", tool_call_id="call_1"),
)


def test_a_template_that_takes_tools_gets_them_as_openai_has_them() -> None:
    messages, tools = template_messages(TALK, USE, takes_tools=True)
    assert tools == [{"type": "function", "function": TOOL}]
    call = {"id": "call_1", "type": "function"}
    function = {"name": "get_weather", "arguments": {"city": "Köln"}}
    assert messages == [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [{**call, "function": function}]},
        {"role": "tool", "content": "rain", "tool_call_id": "call_1"},
    ]


def test_a_template_that_takes_none_is_told_of_them_in_a_system_message() -> None:
    messages, tools = template_messages(TALK, USE, takes_tools=False)
    assert tools == []
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert json.dumps({"type": "function", "function": TOOL}, ensure_ascii=False) in messages[0]["content"]
    call = '{"name": "get_weather", "arguments": {"city": "Köln"}}'
    assert messages[2]["content"] == f"<tool_call>\n{call}\n</tool_call>"
    assert messages[3]["content"] == "<tool_response>\nrain\n</tool_response>"
    assert all(set(message) == {"role", "content"} for message in messages)


def test_what_the_system_message_said_stays_before_the_tools() -> None:
    talk = (ChatMessage("system", "Be kind."), ChatMessage("user", "Hi"))
    messages, _ = template_messages(talk, USE, takes_tools=False)
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[0]["content"].startswith("Be kind.\n\nYou may call functions.")


def test_a_conversation_without_tools_is_as_it_was() -> None:
    talk = (ChatMessage("system", "Be kind."), ChatMessage("user", "Hi"))
    for takes_tools in (True, False):
        messages, tools = template_messages(talk, None, takes_tools)
        assert messages == [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hi"},
        ]
        assert tools == []
