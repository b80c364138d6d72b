"""A small file that only ever says more: how far something had got, kept apart from the thing itself.

It has two slots, each a line with its own digest. A new mark goes over the lower one and is synced, so that a
power cut while writing leaves the other; the file keeps its size, so that one mark costs one sync.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedaigc.canonical import Json, canonical_bytes, parse_record
from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.fields import fields_of
from fedaigc.files import write_private
from fedaigc.fingerprint import blob_digest

SLOT_BYTES = 4096
"""One block of the usual disk: a torn write spoils one slot, never both."""

_DIGEST_CHARS = 64
_FORMER = re.compile(rb"[a-z]{1,32}|n-[0-9a-f]{16}")


@dataclass(frozen=True)
class Mark:
    """What `owner` had reached: a `height` that never falls, and facts about it."""

    owner: str
    height: int = 0
    facts: Mapping[str, Json] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """One slot. Raises VerificationFailed when the facts do not fit into it."""
        record = canonical_bytes({"owner": self.owner, "height": self.height, "facts": dict(self.facts)})
        line = blob_digest(record).encode("ascii") + b" " + record
        if len(line) >= SLOT_BYTES:
            raise VerificationFailed("A mark is too long", f"{len(line)} bytes", "keep fewer facts in it")
        return line.ljust(SLOT_BYTES - 1) + b"\n"


def read_mark(path: Path) -> Mark | None:
    """The highest whole mark in `path`, None when there is no file; raises StorageError when none is whole.

    A file of an earlier release holds its owner's name alone: a mark of height 0.
    """
    try:
        with path.open("rb") as file, _locked(file.fileno(), fcntl.LOCK_SH):
            data = file.read(2 * SLOT_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error) from error
    return _highest(path, data)[0]


def raise_mark(path: Path, mark: Mark, sync: bool = True) -> None:
    """Write `mark`, unless its owner's is as high already. Raises StorageError: the old one holds.

    It is on the disk when this returns, or without `sync` when the system gets to it: kill -9 loses nothing
    then, a power cut may leave the mark of some seconds before, which is too low and never too high. Once the
    file is there, several threads and processes may do so: none of them can lower it.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        _write_whole(path, mark)
        return
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        with _locked(descriptor, fcntl.LOCK_EX):
            known, slot = _highest(path, os.pread(descriptor, 2 * SLOT_BYTES, 0))
            if slot is None or known.owner != mark.owner:
                _write_whole(path, mark)
            elif mark.height > known.height:
                os.pwrite(descriptor, mark.to_bytes(), (1 - slot) * SLOT_BYTES)
                if sync:
                    os.fdatasync(descriptor)
    except OSError as error:
        raise _unusable(path, error) from error
    finally:
        os.close(descriptor)


def _highest(path: Path, data: bytes) -> tuple[Mark, int | None]:
    """The highest mark and its slot; no slot when the file has an earlier release's form."""
    if _FORMER.fullmatch(data):
        return Mark(data.decode("ascii")), None
    found = [(mark, slot) for slot in (0, 1) if (mark := _slot(data, slot)) is not None]
    if not found:
        raise StorageError(
            f"{path} is damaged",
            "it says how far the database beside it had got, and no whole line is left in it",
            "put the newest copy of both back; if the database is surely the newest, delete the file",
        )
    return max(found, key=lambda item: item[0].height)


def _slot(data: bytes, number: int) -> Mark | None:
    line = data[number * SLOT_BYTES : (number + 1) * SLOT_BYTES].rstrip()
    digest, record = line[:_DIGEST_CHARS], line[_DIGEST_CHARS + 1 :]
    if blob_digest(record).encode("ascii") != digest:
        return None
    try:
        fields = fields_of(parse_record(record), "mark")
        return Mark(fields.text("owner"), fields.integer("height"), fields.inner("facts").record)
    except VerificationFailed:
        return None


def _write_whole(path: Path, mark: Mark) -> None:
    write_private(path, mark.to_bytes() * 2)


@contextlib.contextmanager
def _locked(descriptor: int, kind: int) -> Iterator[None]:
    fcntl.flock(descriptor, kind)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _unusable(path: Path, error: OSError) -> StorageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(f"Cannot write {path}", "the disk is full", "free some space")
    return StorageError(
        f"Cannot use {path}", error.strerror or str(error), "check the folder's owner, mode and disk"
    )
