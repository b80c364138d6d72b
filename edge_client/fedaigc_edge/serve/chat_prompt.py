"""A conversation in the form that chat templates take, and in plain words where a template knows no tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fedaigc_edge.serve.request import ChatMessage, ToolCall, ToolUse

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
"""The form in which models of the Hermes and Qwen families were taught to call, asked of every model."""

_TOOLS = """You may call functions. They are described within <tools></tools>, one JSON object a line:
<tools>
{tools}
</tools>
To call one, answer with its name and arguments as JSON within tags, and nothing after them:
{open}
{{"name": "the function's name", "arguments": {{"argument": "value"}}}}
{close}"""


def template_messages(
    messages: Sequence[ChatMessage], use: ToolUse | None, takes_tools: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages and tools for a chat template; with `takes_tools` false the tools are told in a system
    message, calls are shown as text and results as the user's words."""
    tools = [{"type": "function", "function": dict(tool)} for tool in use.tools] if use else []
    if takes_tools:
        return [_templated(message) for message in messages], tools
    told = [_told(message) for message in messages]
    if not tools:
        return told, []
    text = _TOOLS.format(tools="\n".join(map(_json, tools)), open=CALL_OPEN, close=CALL_CLOSE)
    if told[0]["role"] == "system":
        return [{"role": "system", "content": f"{told[0]['content']}\n\n{text}"}, *told[1:]], []
    return [{"role": "system", "content": text}, *told], []


def _templated(message: ChatMessage) -> dict[str, Any]:
    record: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        record["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        record["tool_call_id"] = message.tool_call_id
    return record


def _told(message: ChatMessage) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "user", "content": f"<tool_response>\n{message.content}\n</tool_response>"}
    calls = [
        f"{CALL_OPEN}\n{_json({'name': call.name, 'arguments': _arguments(call)})}\n{CALL_CLOSE}"
        for call in message.tool_calls
    ]
    return {"role": message.role, "content": "\n".join(filter(None, [message.content, *calls]))}


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    # The reader of messages has checked that it is a JSON object.
    value: Mapping[str, Any] = json.loads(call.arguments)
    return value


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
