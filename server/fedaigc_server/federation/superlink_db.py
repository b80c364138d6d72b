"""Flower's database on disk: private, and set aside when it is damaged, since all in it can be made again.

Who may connect comes from our registry (`Enrolment.reconcile`), and a round whose run is gone is submitted
again (`RoundWatch`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sqlite3
from datetime import datetime
from pathlib import Path

from fedaigc.errors import StorageError
from fedaigc.files import PRIVATE_FILE, sync_folder
from fedaigc_server.clock import Clock

TAIL_BYTES = 16 << 10
HOPELESS_DEATHS = 3
"""So many deaths in a row over a database that is sound as a file: its tables are not what Flower needs."""

_DAMAGED = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB"})
_BESIDE = ("-wal", "-shm", "-journal", "")
"""The database itself last: after a crash in between, what is left is found damaged again."""
_ITS_FAULT = re.compile(rb"sqlalchemy\.exc\.|alembic\.")
_NOT_ITS_FAULT = re.compile(
    rb"database is locked|disk is full|disk I/O error|readonly database|unable to open"
)

log = logging.getLogger(__name__)


def damage(database: Path) -> str:
    """What is wrong with the file, in SQLite's words; empty when it is sound, missing or cannot be told."""
    if not database.exists():
        return ""
    try:
        with contextlib.closing(sqlite3.connect(database, timeout=1)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        # The primary code: SQLITE_CORRUPT_INDEX and its like are damage too.
        name = "_".join((getattr(error, "sqlite_errorname", "") or "").split("_")[:2])
        return str(error) if name in _DAMAGED else ""
    return "" if found == "ok" else str(found).replace("\n", " ")


def died_of_its_database(output: bytes) -> bool:
    """Whether what SuperLink wrote before it died blames its database, and a fresh one would help."""
    return bool(_ITS_FAULT.search(output)) and not _NOT_ITS_FAULT.search(output)


def set_aside(database: Path, why: str, now: datetime) -> Path:
    """Rename the database, so that SuperLink makes a new one; where the old one lies. Raises StorageError.

    Call it while SuperLink does not run.
    """
    aside = database.with_name(f"{database.name}.damaged-{now:%Y%m%dT%H%M%SZ}")
    try:
        for suffix in _BESIDE:
            path = database.with_name(database.name + suffix)
            if path.exists():
                path.replace(aside.with_name(aside.name + suffix))
        sync_folder(database.parent)
    except OSError as error:
        raise StorageError(
            f"Cannot move {database} aside", error.strerror or "", "check the folder's owner, mode and disk"
        ) from error
    log.warning(
        "event=superlink_db_damaged why=%r kept=%s next=%r",
        why,
        aside.name,
        "nothing to do: nodes are registered again from the registry and running rounds are submitted again",
    )
    return aside


def keep_private(database: Path) -> None:
    """Take from others what an earlier version let them read."""
    for suffix in _BESIDE:
        with contextlib.suppress(FileNotFoundError):
            database.with_name(database.name + suffix).chmod(PRIVATE_FILE)


class SuperLinkDatabase:
    """SuperLink's database over the process's lives; `output` is the log that SuperLink appends to."""

    def __init__(self, path: Path, output: Path, clock: Clock) -> None:
        self._path = path
        self._output = output
        self._clock = clock
        self._read_until = output.stat().st_size if output.exists() else 0
        self._blamed = 0

    def mend_before_start(self) -> bool:
        """Set it aside if it is damaged; whether it was. Raises StorageError."""
        keep_private(self._path)
        return self._mend(damage(self._path))

    def mend_after_death(self) -> bool:
        """The same, and also when SuperLink dies of a sound file again and again. Raises StorageError."""
        self._blamed = self._blamed + 1 if died_of_its_database(self._new_output()) else 0
        why = damage(self._path)
        if not why and self._blamed >= HOPELESS_DEATHS:
            why = f"SuperLink died of it {self._blamed} times"
        return self._mend(why)

    def _mend(self, why: str) -> bool:
        if not why:
            return False
        set_aside(self._path, why, self._clock.utc())
        self._blamed = 0
        return True

    def _new_output(self) -> bytes:
        if not self._output.exists():
            return b""
        with self._output.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(end - TAIL_BYTES, self._read_until if self._read_until <= end else 0))
            self._read_until = end
            return file.read(TAIL_BYTES)
