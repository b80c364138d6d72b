"""Open one of the server's SQLite databases so that what was acknowledged survives, and damage is told."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedaigc.errors import StorageError
from fedaigc.files import PRIVATE_FILE
from fedaigc.made_before import MadeBefore

BUSY_MS = 10_000
Row = sqlite3.Row


class Database:
    """One connection behind one lock; every write is a transaction that is on the disk when it returns.

    Safe to call from any thread. Every failure leaves as StorageError. With `made` it is checked first that
    nothing is damaged, and that what was made here before is there.
    """

    def __init__(self, path: Path, *schemas: str, made: MadeBefore | None = None) -> None:
        self.path = path
        self._lock = threading.RLock()
        if made is not None:
            made.require_file()
        try:
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            try:
                self._prepare(schemas, made)
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise _storage_error(path, error) from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; nested use joins the outer transaction. Raises StorageError."""
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
            except (sqlite3.Error, OSError) as error:
                raise _storage_error(self.path, error) from error

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Every row of one query. Raises StorageError."""
        with self._lock:
            try:
                return self._connection.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise _storage_error(self.path, error) from error

    def row(self, sql: str, values: Sequence[Any] = ()) -> Row | None:
        """The first row of one query, or None. Raises StorageError."""
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def close(self) -> None:
        """Close the connection; later calls raise StorageError."""
        with self._lock:
            self._connection.close()

    def remember(self, made: MadeBefore, height: int) -> None:
        """Note beside the file how far it got, now that it can be used. Raises StorageError."""
        with self._lock:
            made.remember(self._connection, height)

    def _prepare(self, schemas: Sequence[str], made: MadeBefore | None) -> None:
        self._connection.row_factory = sqlite3.Row
        self.path.chmod(PRIVATE_FILE)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={BUSY_MS}", "foreign_keys=ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        if made is not None:
            made.require_content(self._connection)
        for schema in schemas:
            self._connection.executescript(schema)


def _storage_error(path: Path, error: Exception) -> StorageError:
    return StorageError(
        f"Cannot use the database {path.name}",
        str(error),
        f"check the disk and the owner of {path}; if it is damaged, restore it from a backup",
    )
