"""The messages of a conversation, read from a request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedaigc_edge.serve import openai_fields as fields
from fedaigc_edge.serve.openai_fields import refuse
from fedaigc_edge.serve.request import ChatMessage, ToolCall

MAX_CALLS = 128
MAX_ID_CHARACTERS = 256

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
"""OpenAI's `developer` is its newer name for `system`."""
_NEUTRAL = {"name", "refusal", "annotations", "audio", "function_call", "reasoning_content"}
"""A program that sends an answer of ours back as history includes some of these, empty."""
_OF_ROLE = {"assistant": {"tool_calls"}, "tool": {"tool_call_id"}}


def read_messages(value: Any) -> tuple[ChatMessage, ...]:
    """At least one message; a tool's result answers an earlier call. Raises RequestInvalid with the place."""
    if not isinstance(value, list) or not value:
        refuse("messages", "it must be a list of at least one message", "send what the user said")
    messages: list[ChatMessage] = []
    called: set[str] = set()
    for number, item in enumerate(value):
        message = _message(item, f"messages[{number}]")
        if message.tool_call_id is not None and message.tool_call_id not in called:
            refuse(
                f"messages[{number}].tool_call_id", "no earlier message has a call of this id", "correct it"
            )
        called.update(call.id for call in message.tool_calls)
        messages.append(message)
    return tuple(messages)


def _message(item: Any, where: str) -> ChatMessage:
    if not isinstance(item, dict):
        refuse(where, "a message is an object with role and content", "correct it")
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        refuse(f"{where}.role", "it must be system, developer, user, assistant or tool", "correct it")
    own = _OF_ROLE.get(role, set())
    others = set().union(*_OF_ROLE.values()) - own
    if not set(item) <= {"role", "content", *_NEUTRAL, *own, *others}:
        refuse(where, "it has a field that this device does not know", "send role and content only")
    for name in sorted((_NEUTRAL | others) & set(item)):
        if item[name] not in (None, [], ""):
            refuse(f"{where}.{name}", "the model would never see it", "leave it out")
    calls = _calls(item.get("tool_calls"), f"{where}.tool_calls")
    content = item.get("content")
    text = "" if content is None and calls else _content(content, f"{where}.content")
    call_id = fields.text(item, "tool_call_id", MAX_ID_CHARACTERS) if role == "tool" else None
    if role == "tool" and call_id is None:
        refuse(f"{where}.tool_call_id", "it must name the call that this is the result of", "add it")
    return ChatMessage(_ROLES[role], text, calls, call_id)


def _content(value: Any, where: str) -> str:
    if isinstance(value, list):
        value = "".join(_part(part, f"{where}[{number}]") for number, part in enumerate(value))
    if not isinstance(value, str):
        refuse(where, "it must be text, or a list of text parts", "correct it")
    if not fields.is_unicode(value):
        refuse(where, "it is not valid Unicode (a lone surrogate)", "send whole characters")
    return value


def _part(part: Any, where: str) -> str:
    if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
        refuse(where, "only parts of type text are supported", "send text; this model reads nothing else")
    if set(part) != {"type", "text"}:
        refuse(where, "it has a field that this device does not know", "send type and text only")
    return str(part["text"])


def _calls(value: Any, where: str) -> tuple[ToolCall, ...]:
    if value is None or value == []:
        return ()
    if not isinstance(value, list) or len(value) > MAX_CALLS:
        refuse(where, f"it must be a list of at most {MAX_CALLS} calls", "correct it")
    return tuple(_call(item, f"{where}[{number}]") for number, item in enumerate(value))


def _call(item: Any, where: str) -> ToolCall:
    fields.record(item, where, {"id", "type", "function", "index"}, {"id", "function"})
    function = fields.record(item["function"], f"{where}.function", {"name", "arguments"}, {"name"})
    if item.get("type", "function") != "function":
        refuse(f"{where}.type", "only functions can be called", "correct it")
    name, call_id = function["name"], item["id"]
    for text, place in ((name, "function.name"), (call_id, "id")):
        if (
            not isinstance(text, str)
            or not 1 <= len(text) <= MAX_ID_CHARACTERS
            or not fields.is_unicode(text)
        ):
            refuse(
                f"{where}.{place}", f"it must be text of 1 to {MAX_ID_CHARACTERS} characters", "correct it"
            )
    return ToolCall(call_id, name, _arguments(function, f"{where}.function.arguments"))


def _arguments(function: Mapping[str, Any], where: str) -> str:
    text = function.get("arguments") or "{}"
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not fields.is_unicode(json.dumps(value, ensure_ascii=False)):
        refuse(where, "it must be the text of a JSON object", "send what the model called with")
    return str(text)
