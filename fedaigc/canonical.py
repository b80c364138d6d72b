"""Turn a record into the one byte string that is hashed and signed (RFC 8785, JCS)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import rfc8785

from fedaigc.errors import VerificationFailed

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict with str keys."""

MAX_RECORD_BYTES = 1 << 20
"""Larger records are refused before they are parsed."""


def canonical_bytes(record: Json) -> bytes:
    """The canonical UTF-8 form of a JSON value.

    Raises VerificationFailed for a value that JSON cannot hold: NaN, bytes, integers beyond 2**53.
    """
    try:
        return rfc8785.dumps(record)
    except (rfc8785.CanonicalizationError, UnicodeError) as error:
        raise VerificationFailed(
            "A record has no canonical form", str(error), "use only JSON values, and integers below 2**53"
        ) from error


def parse_record(data: bytes, limit: int = MAX_RECORD_BYTES, whole_text: bool = True) -> dict[str, Json]:
    """Parse bytes that must be one JSON object of at most `limit` bytes; duplicate keys are refused.

    So is half a surrogate pair, unless `whole_text` is off and the caller checks each text itself.

    Raises VerificationFailed; the message never quotes the data.
    """
    if len(data) > limit:
        raise VerificationFailed("A record is too large", f"{len(data)} bytes, limit {limit}", "send less")
    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise VerificationFailed(
            "A record is not valid JSON", type(error).__name__, "send one JSON object"
        ) from None
    if whole_text and "\\u" in text and not _is_text(value):
        raise VerificationFailed(
            "A record is not valid JSON", "it holds half of a surrogate pair", "send whole characters"
        )
    if not isinstance(value, dict):
        raise VerificationFailed("A record is not a JSON object", "", "send one JSON object")
    return value


def parse_canonical(data: bytes, limit: int = MAX_RECORD_BYTES) -> dict[str, Json]:
    """Parse bytes that must already be canonical, so that a signature covers one reading only."""
    record = parse_record(data, limit)
    if canonical_bytes(record) != data:
        raise VerificationFailed(
            "A record is not in canonical form", "RFC 8785 gives other bytes", "re-encode it"
        )
    return record


def _unique(pairs: list[tuple[str, Json]]) -> Mapping[str, Json]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("duplicate key")  # caught by parse_record
    return record


def _is_text(value: Json) -> bool:
    # An escaped lone surrogate parses, and then nothing can write it.
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")  # caught by parse_record
