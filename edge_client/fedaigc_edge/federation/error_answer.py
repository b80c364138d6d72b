"""Turn an error answer back into the error it was, so that a caller sees what the other side meant."""

from __future__ import annotations

from collections.abc import Mapping

from fedaigc.canonical import Json, parse_record
from fedaigc.errors import (
    FedaigcError,
    NotAuthorised,
    RequestInvalid,
    Unavailable,
    VerificationFailed,
    parts_of,
)

OPENAI_INVALID = "invalid_request_error"
MAX_ERROR_TEXT = 500
"""Longer sentences from the other side are cut: they end up in logs and on screens."""


def error_from_answer(status: int, body: bytes, asked: str) -> FedaigcError:
    """The error in `{"error": {...}}`, or one that tells the status when the body is something else.

    Our own form and OpenAI's, in which a device's public face tells its errors, are understood.
    `asked` names what was asked for ("the server", "POST /v1/enrol"). Never raises.
    """
    try:
        record = parse_record(body)["error"]
        if isinstance(record.get("message"), str):
            return _from_openai(record)
        texts = [_sentence(record.get(part, "")) for part in ("what", "why", "do_next")]
        kind = _KINDS[str(record["code"])]
        if not texts[0]:
            raise KeyError("what")  # caught by the clause below
    except (VerificationFailed, KeyError, TypeError, AttributeError):
        return _plain(status, asked)
    return kind(*texts)


def _from_openai(record: Mapping[str, Json]) -> FedaigcError:
    """`{"message", "type", "param", "code"}`: the message is one of our errors, told as a line."""
    texts = [_sentence(part) for part in parts_of(str(record["message"]))]
    if not texts[0]:
        raise KeyError("message")  # caught by error_from_answer
    unnamed = RequestInvalid if record.get("type") == OPENAI_INVALID else FedaigcError
    return _KINDS.get(str(record.get("code")), unnamed)(*texts)


def _plain(status: int, asked: str) -> FedaigcError:
    if status == 403:
        return NotAuthorised(
            f"{asked} was refused", "the answer gives no reason", "ask the operator for a new token"
        )
    if status in (429, 502, 503, 504):
        return Unavailable(
            f"{asked} cannot be served now", f"HTTP status {status}", "nothing is lost; it is tried again"
        )
    return FedaigcError(
        f"{asked} failed", f"HTTP status {status} without a reason", "look at the log of the other side"
    )


def _sentence(value: object) -> str:
    printable = "".join(character if character.isprintable() else " " for character in str(value))
    return printable[:MAX_ERROR_TEXT]


def _kinds(base: type[FedaigcError]) -> dict[str, type[FedaigcError]]:
    # A kind without a code of its own, as rooms define for themselves, is not what goes over the wire.
    found = {base.code: base} if "code" in vars(base) else {}
    for kind in base.__subclasses__():
        found |= _kinds(kind)
    return found


_KINDS = _kinds(FedaigcError)
