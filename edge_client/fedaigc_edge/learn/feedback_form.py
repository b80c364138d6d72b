"""The three forms of POST /v1/feedback, checked; what is wrong is told by the field's name, not its text.

    {"messages": [{"role": "user", "content": "..."}], "chosen": "...", "rejected": "..."}
    {"request_id": "chatcmpl-...", "rating": "up"}
    {"request_id": "chatcmpl-...", "edited": "..."}

`"prompt": "..."` is short for one user message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedaigc.errors import RequestInvalid
from fedaigc.preference import MAX_TEXT, MAX_TURNS, ROLES, Turn

MAX_REQUEST_ID = 64
THUMBS = ("up", "down")


@dataclass(frozen=True, repr=False)
class JudgedPair:
    """Both answers given by the caller."""

    prompt: tuple[Turn, ...]
    chosen: str
    rejected: str


@dataclass(frozen=True, repr=False)
class Thumb:
    """A rating of an answer that this device gave."""

    request_id: str
    up: bool


@dataclass(frozen=True, repr=False)
class EditedAnswer:
    """A correction of an answer that this device gave; the correction is preferred."""

    request_id: str
    edited: str


def read_feedback(body: Mapping[str, Any]) -> JudgedPair | Thumb | EditedAnswer:
    """Which of the three forms `body` is; raises RequestInvalid with the offending field."""
    if "rating" in body:
        _only(body, "request_id", "rating")
        if body["rating"] not in THUMBS:
            raise _wrong("rating", "it must be up or down")
        return Thumb(_request_id(body), body["rating"] == "up")
    if "edited" in body:
        _only(body, "request_id", "edited")
        return EditedAnswer(_request_id(body), _text(body, "edited"))
    if "chosen" in body or "rejected" in body:
        form = "prompt" if "prompt" in body and "messages" not in body else "messages"
        _only(body, form, "chosen", "rejected")
        prompt = (Turn("user", _text(body, "prompt")),) if form == "prompt" else _turns(body["messages"])
        chosen, rejected = _text(body, "chosen"), _text(body, "rejected")
        if chosen == rejected:
            raise _wrong("rejected", "it must differ from chosen")
        return JudgedPair(prompt, chosen, rejected)
    raise RequestInvalid(
        "This is no feedback",
        "it has none of chosen and rejected, rating, edited",
        'send {"messages", "chosen", "rejected"}, {"request_id", "rating"} or {"request_id", "edited"}',
        field="chosen",
    )


def _turns(value: Any) -> tuple[Turn, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_TURNS:
        raise _wrong("messages", f"it must be a list of 1 to {MAX_TURNS} messages")
    turns = []
    for number, message in enumerate(value):
        known = isinstance(message, dict) and set(message) == {"role", "content"}
        if not known or message["role"] not in ROLES:
            raise _wrong(f"messages[{number}]", f"it must have role ({', '.join(ROLES)}) and content")
        turns.append(Turn(message["role"], _text(message, "content", f"messages[{number}].content")))
    if turns[-1].role != "user":
        raise _wrong("messages", "the last message must be the user's")
    return tuple(turns)


def _request_id(body: Mapping[str, Any]) -> str:
    return _text(body, "request_id", limit=MAX_REQUEST_ID)


def _text(body: Mapping[str, Any], name: str, field: str = "", limit: int = MAX_TEXT) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > limit:
        raise _wrong(field or name, f"it must be text of 1 to {limit} characters")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _wrong(field or name, "it must be valid Unicode") from None
    return value


def _only(body: Mapping[str, Any], *names: str) -> None:
    missing, unknown = set(names) - set(body), set(body) - set(names)
    if missing or unknown:
        raise _wrong(min(missing or unknown), "it is missing" if missing else "this form has no such field")


def _wrong(field: str, why: str) -> RequestInvalid:
    # An unknown field's name is the caller's own: it may be long, or no valid Unicode.
    known = field[:80].encode("utf-8", "replace").decode("utf-8")
    what = f"Feedback field {known!r} is wrong"
    return RequestInvalid(what, why, "correct it and send it again", field=known)
