"""Read what the officer brings, and turn it into tags here: the only form of it that is ever sent."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from fedaigc.errors import RequestInvalid, StorageError
from fedaigc.fingerprint import (
    Fingerprint,
    fingerprint_bytes,
    fingerprint_text,
    month_of,
    query_tag,
    tag_key,
)

MAX_CONTENT_BYTES = 64 << 20
MONTHS = 13
"""A year and the month before it, so that a yearly review finds its first day."""

MAX_MONTHS = 240
STDIN = "-"

_NOBODYS = b"no content has this digest: "


def fingerprint_content(source: str) -> Fingerprint:
    """The fingerprint of a file, or of standard input for `-`; at most 64 MiB.

    Raises StorageError when it cannot be read, RequestInvalid when it is too large or has no visible text.
    """
    try:
        if source == STDIN:
            content = sys.stdin.buffer.read(MAX_CONTENT_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                content = file.read(MAX_CONTENT_BYTES + 1)
    except OSError as error:
        raise StorageError(f"Cannot read {source}", error.strerror or "", "check the path") from error
    if len(content) > MAX_CONTENT_BYTES:
        raise _unusable(f"it has more than {MAX_CONTENT_BYTES} bytes")
    fingerprint = fingerprint_bytes(content)
    # All blank content is the same text, so it would match every empty answer.
    if fingerprint.canonical == fingerprint_text("").canonical:
        raise _unusable("it is blank")
    return fingerprint


def months_until(now: datetime, count: int) -> list[str]:
    """The `count` months that end with the one of `now`, and one more: a device's clock may be ahead."""
    year, month = (int(part) for part in month_of(now).split("-"))
    last = year * 12 + month
    return [f"{number // 12:04d}-{number % 12 + 1:02d}" for number in range(last - count, last + 1)]


def tags_of(fingerprint: Fingerprint, tenant_tag_key: bytes, months: list[str]) -> list[bytes]:
    """Two tags of 16 bytes a month, sorted: of the content to the byte, and of its text however copied.

    Where both are one, because the text is canonical already, a tag that nothing has takes the second place:
    every content has as many, and their number and order say nothing about it.
    """
    raw, canonical = fingerprint.raw, fingerprint.canonical
    digests = (raw, canonical if canonical != raw else _NOBODYS + raw)
    return sorted(query_tag(tag_key(tenant_tag_key, month), each) for month in months for each in digests)


def _unusable(why: str) -> RequestInvalid:
    return RequestInvalid("This content cannot be searched for", why, "give one output's text", "content")
