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

BUSY_MS = 10_000
Row = sqlite3.Row


class Database:
    """One connection behind one lock; every write is a transaction that is on the disk when it returns.

    Safe to call from any thread. Every failure leaves as StorageError.
    """

    def __init__(self, path: Path, *schemas: str) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._connection.row_factory = sqlite3.Row
            path.chmod(PRIVATE_FILE)
            for pragma in (
                "journal_mode=WAL",
                "synchronous=FULL",
                f"busy_timeout={BUSY_MS}",
                "foreign_keys=ON",
            ):
                self._connection.execute(f"PRAGMA {pragma}")
            for schema in schemas:
                self._connection.executescript(schema)
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


def _storage_error(path: Path, error: Exception) -> StorageError:
    return StorageError(
        f"Cannot use the database {path.name}",
        str(error),
        f"check the disk and the owner of {path}; if it is damaged, restore it from a backup",
    )
