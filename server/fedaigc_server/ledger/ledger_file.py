"""The ledger's SQLite file behind one lock: durable transactions, and errors that say what to do."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedaigc.errors import FolderInUse, StorageError
from fedaigc.files import make_private, sync_folder
from fedaigc.made_before import MadeBefore
from fedaigc_server.ledger.schema import APPLICATION_ID, PRAGMAS, TABLES, VERSION


class LedgerFile:
    """Threads may share it: one transaction at a time holds the lock.

    A transaction that ended is on the disk; one that raised never happened. Every failure of the disk or of
    SQLite leaves as StorageError. With `made` it is checked first that nothing is damaged, and that what was
    made here before is there.
    """

    def __init__(self, path: Path, made: MadeBefore | None = None) -> None:
        self._path = path
        self._made = made
        if made is not None:
            made.require_file()
        self._lock = threading.RLock()
        with self._explained():
            _make_private(path)
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection inside one snapshot. Raises StorageError."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection inside one durable transaction, the only writer of all. Raises StorageError."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def remember(self, height: int, **facts: str) -> None:
        """Note beside the file how far it got, now that it can be used. Raises StorageError."""
        if self._made is not None:
            with self._lock, self._explained():
                self._made.remember(self._connection, height, **facts)

    def close(self) -> None:
        """Let go of the file; nothing acknowledged depends on it."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        for pragma in PRAGMAS:
            self._connection.execute(pragma)
        if self._made is not None:
            self._made.require_content(self._connection)
        with self.writing() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if not tables:
                for statement in TABLES:
                    connection.execute(statement)
            elif application != APPLICATION_ID:
                raise StorageError(f"{self._path} is not a ledger", "another program made it", "move it away")
            elif version > VERSION:
                raise StorageError(
                    f"{self._path} was written by a newer release",
                    f"its tables are version {version}, this release knows {VERSION}",
                    "install that release again",
                )

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk makes SQLite roll back by itself; then there is nothing left to undo.
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _explanation(self._path, error) from error
        except OSError as error:
            raise StorageError(
                f"Cannot open {self._path}", error.strerror or "", "check the folder's owner and mode"
            ) from error


def _make_private(path: Path) -> None:
    # SQLite gives its side files the mode of the main one, so it must be right before SQLite sees it.
    if not path.exists():
        make_private(path)
        sync_folder(path.parent)


def _explanation(path: Path, error: sqlite3.Error) -> StorageError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StorageError(
            f"The ledger {path} cannot grow",
            "the disk is full; nothing of this batch was written",
            "free some space; devices deliver again by themselves",
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StorageError(
            f"The ledger {path} is damaged",
            str(error),
            "stop the server and restore a backup of the file; receipts that were handed out stay valid",
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return FolderInUse(
            f"The ledger {path} is in use", "another process is writing it", "stop that process"
        )
    return StorageError(
        f"The ledger {path} cannot be read or written",
        str(error),
        "check the disk, and the file's owner and mode",
    )
