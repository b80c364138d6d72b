"""Read the body of POST /v1/chat/completions strictly into a request of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedaigc.canonical import parse_record
from fedaigc.errors import RequestInvalid, VerificationFailed
from fedaigc.identifiers import RequestId
from fedaigc_edge.serve import openai_fields as fields
from fedaigc_edge.serve.openai_fields import refuse
from fedaigc_edge.serve.request import ChatMessage, GenerationRequest, Language

MAX_BODY_BYTES = 1 << 20
"""Larger bodies are refused before they are parsed."""
MAX_TOKENS_ASKED = 1 << 24
MAX_TOP_K = 1 << 20

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""OpenAI's `developer` is its newer name for `system`."""
_MESSAGE_NEUTRAL = {"name", "refusal", "annotations", "audio", "function_call", "tool_calls"}
"""A program that sends an answer of ours back as history includes these, empty."""


@dataclass(frozen=True)
class ChatCall:
    """One call of the chat route: the request, and how its answer is to be sent."""

    request: GenerationRequest
    stream: bool
    include_usage: bool


def read_json(data: bytes, whole_text: bool = True) -> dict[str, Any]:
    """The JSON object in a request's body; raises RequestInvalid, which never quotes the body.

    Without `whole_text` half surrogate pairs pass: for a caller that checks each field and names the bad one.
    """
    try:
        return parse_record(data, MAX_BODY_BYTES, whole_text)
    except VerificationFailed as error:
        raise RequestInvalid("The body is not one JSON object", error.why, "send UTF-8 JSON") from None


def read_chat_call(data: bytes, request_id: RequestId, language: Language) -> ChatCall:
    """Check every field; raises RequestInvalid naming the first that cannot be honoured."""
    body = read_json(data, whole_text=False)
    fields.check_fields(body)
    fields.integer(body, "n", 1, 1)
    if fields.flag(body, "store"):
        refuse("store", "this device keeps no conversations for later retrieval", "leave it out")
    for name in ("user", "safety_identifier", "prompt_cache_key"):
        fields.text(body, name, 512, lambda _: True)
    fields.check_metadata(body)
    stream = fields.flag(body, "stream")
    model = fields.text(body, "model", 256)
    if model is None:
        refuse("model", "it is missing", "name a model that GET /v1/models lists")
    request = GenerationRequest(
        id=request_id,
        model=model,
        messages=_messages(body.get("messages")),
        max_tokens=_max_tokens(body),
        temperature=fields.number(body, "temperature", 0, 2, 1.0),
        top_p=_top_p(body),
        top_k=fields.integer(body, "top_k", 0, MAX_TOP_K) or 0,
        seed=fields.integer(body, "seed", -fields.MAX_SEED - 1, fields.MAX_SEED),
        stop=fields.stops(body),
        language=language,
    )
    return ChatCall(request, stream, _include_usage(body, stream))


def _max_tokens(body: Mapping[str, Any]) -> int | None:
    old = fields.integer(body, "max_tokens", 1, MAX_TOKENS_ASKED)
    new = fields.integer(body, "max_completion_tokens", 1, MAX_TOKENS_ASKED)
    if old is not None and new is not None and old != new:
        refuse("max_tokens", "it differs from max_completion_tokens", "give one of them")
    return new if new is not None else old


def _top_p(body: Mapping[str, Any]) -> float:
    value = fields.number(body, "top_p", 0, 1, 1.0)
    if value == 0:
        refuse("top_p", "it must be above 0", "for the likeliest token set temperature to 0")
    return value


def _include_usage(body: Mapping[str, Any], stream: bool) -> bool:
    options = body.get("stream_options")
    if options is None:
        return False
    if not stream:
        refuse("stream_options", "it is only allowed with stream: true", "leave it out")
    if not isinstance(options, dict) or not set(options) <= {"include_usage", "include_obfuscation"}:
        refuse("stream_options", "it may hold include_usage only", "leave the rest out")
    if fields.flag(options, "include_obfuscation"):
        refuse("stream_options", "this device adds no obfuscation", "set include_obfuscation to false")
    return fields.flag(options, "include_usage")


def _messages(value: Any) -> tuple[ChatMessage, ...]:
    if not isinstance(value, list) or not value:
        refuse("messages", "it must be a list of at least one message", "send what the user said")
    return tuple(_message(item, f"messages[{number}]") for number, item in enumerate(value))


def _message(item: Any, where: str) -> ChatMessage:
    if not isinstance(item, dict):
        refuse(where, "a message is an object with role and content", "correct it")
    if not set(item) <= {"role", "content", *_MESSAGE_NEUTRAL}:
        refuse(where, "it has a field that this device does not know", "send role and content only")
    for name in sorted(_MESSAGE_NEUTRAL & set(item)):
        if item[name] not in (None, []):
            refuse(f"{where}.{name}", "the model would never see it", "leave it out")
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        refuse(f"{where}.role", "it must be system, developer, user or assistant", "tools are not supported")
    return ChatMessage(_ROLES[role], _content(item.get("content"), f"{where}.content"))


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
