"""The JSON object in a request's body."""

from __future__ import annotations

from typing import Any

from fedaigc.canonical import parse_record
from fedaigc.errors import RequestInvalid, VerificationFailed

MAX_BODY_BYTES = 1 << 20
"""Larger bodies are refused before they are parsed."""


def read_json(data: bytes, whole_text: bool = True) -> dict[str, Any]:
    """The JSON object in a request's body; raises RequestInvalid, which never quotes the body.

    Without `whole_text` half surrogate pairs pass: for a caller that checks each field and names the bad one.
    """
    try:
        return parse_record(data, MAX_BODY_BYTES, whole_text)
    except VerificationFailed as error:
        raise RequestInvalid("The body is not one JSON object", error.why, "send UTF-8 JSON") from None
