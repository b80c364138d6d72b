"""Open learn.db: feedback and the privacy account; every write is on the disk when it returns."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedaigc.errors import StorageError
from fedaigc.files import PRIVATE_FILE, make_private, private_folder
from fedaigc.made_before import MadeBefore

LEARNER = "device"
"""learn.db belongs to the device whatever its node name is: epsilon spent is never forgotten."""

BUSY_MS = 10_000
PRAGMAS = (
    "trusted_schema = OFF",
    "journal_mode = WAL",
    # FULL: a reservation must be on the disk before a pair is read.
    "synchronous = FULL",
    f"busy_timeout = {BUSY_MS}",
    # Deleted feedback is overwritten, not only unlinked.
    "secure_delete = ON",
)


class LearnDatabase:
    """One connection behind one lock, readable by its owner only; safe to call from any thread.

    Every failure leaves as StorageError, which never quotes a value.
    """

    def __init__(self, path: Path, schema: str) -> None:
        self._path = path
        self._lock = threading.RLock()
        self.made = made_before(path)
        private_folder(path.parent)
        self.made.require_file()
        try:
            make_private(path)
            path.chmod(PRIVATE_FILE)
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            try:
                self._prepare(schema)
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise _storage_error(path, error) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and durable at the end; nested use joins the outer one. Raises StorageError."""
        with self._lock:
            if self._connection.in_transaction:
                yield self._connection
                return
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise _storage_error(self._path, error) from None

    @contextmanager
    def unsynced_transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and not waited for: kill -9 loses nothing, a power cut may lose the last seconds.

        For what comes with every answer: a sync for it holds up the next answer's evidence on the same disk.
        """
        with self._lock:
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("PRAGMA synchronous = NORMAL")
            try:
                with self.transaction() as write:
                    yield write
            finally:
                self._connection.execute("PRAGMA synchronous = FULL")

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Every row of one query. Raises StorageError."""
        with self._lock:
            try:
                return self._connection.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise _storage_error(self._path, error) from None

    def row(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        """The first row of one query, or None. Raises StorageError."""
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def close(self) -> None:
        """Close the connection; later calls raise StorageError."""
        with self._lock:
            self._connection.close()

    def _prepare(self, schema: str) -> None:
        self._connection.row_factory = sqlite3.Row
        for pragma in PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        self.made.require_content(self._connection)
        self._connection.executescript(schema)
        self.made.remember(self._connection)


def made_before(path: Path) -> MadeBefore:
    """What is known beside learn.db of how far the account had got, in reservations and starts."""
    return MadeBefore(
        path,
        LEARNER,
        "without it nobody knows what privacy was spent here",
        "reservations and starts",
        "if no newer one is left, give up feedback and account: fedaigc-edge leave --erase, and join again",
    )


def _storage_error(path: Path, error: Exception) -> StorageError:
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    if "FULL" in name:
        return StorageError(f"Cannot write {path.name}", "the disk is full", "free some space, try again")
    if "CORRUPT" in name or "NOTADB" in name:
        return StorageError(
            f"{path.name} is damaged",
            f"SQLite says {name}",
            "restore it from a backup: without it nobody knows what privacy this device has spent",
        )
    return StorageError(f"Cannot use {path.name}", name, f"check the disk and the owner of {path}")
