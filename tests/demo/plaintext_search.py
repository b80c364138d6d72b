"""Search files for the demo's texts, in every form in which they could have left a device."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path

import re2

PIECE_BYTES = 24
"""Texts are searched in aligned pieces of this size: any leaked run of 47 bytes contains one whole."""

SHORTEST_BYTES = 12
"""Shorter texts are skipped: `Yes.` occurs by chance."""

BLOCK_BYTES = 8 << 20


def leaked_bytes(texts: Iterable[str], folders: Iterable[Path]) -> int:
    """How many bytes of `texts` occur in files below `folders`, as UTF-8, UTF-16, base64 or JSON escapes."""
    needles = sorted({needle for text in texts for needle in _needles(text)})
    if not needles:
        return 0
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 1 << 30
    pattern = re2.compile(b"|".join(re2.escape(needle) for needle in needles), options)
    return sum(_count(pattern, path) for folder in folders for path in _files(folder))


def _needles(text: str) -> Iterator[bytes]:
    for encoded in (text.encode("utf-8"), text.encode("utf-16-le"), text.encode("unicode_escape")):
        if len(encoded) < SHORTEST_BYTES:
            continue
        for start in range(0, max(1, len(encoded) - SHORTEST_BYTES), PIECE_BYTES):
            piece = encoded[start : start + PIECE_BYTES]
            if len(piece) >= SHORTEST_BYTES:
                yield piece
    yield from _base64_needles(text.encode("utf-8"))


def _base64_needles(data: bytes) -> Iterator[bytes]:
    # Base64 groups three bytes: without its partial end groups, a piece looks the same at each offset.
    for start in range(0, len(data) - PIECE_BYTES + 1, PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        for shift in range(3):
            whole = piece[shift : shift + (len(piece) - shift) // 3 * 3]
            yield base64.b64encode(whole)
            yield base64.urlsafe_b64encode(whole)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())


def _count(pattern: re2.Pattern[bytes], path: Path) -> int:
    found, tail = 0, b""
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            window = tail + block
            found += sum(len(match.group()) for match in pattern.finditer(window))
            tail = window[-4 * PIECE_BYTES :]
    return found
