"""JSON and server-sent events as bytes that every reader takes for one line."""

from __future__ import annotations

import json
from typing import Any

DONE = b"data: [DONE]\n\n"

# JSON allows these raw, but many readers of event streams take them for line ends.
_LINE_ENDS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def event(value: dict[str, Any]) -> bytes:
    """One server-sent event with a JSON value."""
    return b"data: " + json_bytes(value) + b"\n\n"


def json_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8 on one line, whichever characters a reader takes for line ends."""
    text = _ENCODER.encode(value)
    return text.translate(_LINE_ENDS).encode("utf-8") if not text.isascii() else text.encode("ascii")
