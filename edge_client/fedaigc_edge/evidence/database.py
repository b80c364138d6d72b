"""Open the evidence database: write-ahead log, fsync at every commit, readable by its owner only."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from fedaigc.errors import StorageError
from fedaigc.files import make_private, private_folder
from fedaigc.made_before import MadeBefore

BUSY_TIMEOUT_MS = 10_000
SCHEMA_VERSION = 1

SCHEMA = """
CREATE TABLE owner (node TEXT NOT NULL, last_seq INTEGER NOT NULL, delivered INTEGER NOT NULL);
CREATE TABLE vault (
    seq INTEGER PRIMARY KEY, request TEXT NOT NULL UNIQUE, month TEXT NOT NULL, salt BLOB NOT NULL,
    raw BLOB NOT NULL, canonical BLOB NOT NULL, record TEXT NOT NULL, opening BLOB NOT NULL
);
CREATE TABLE outbox (seq INTEGER PRIMARY KEY REFERENCES vault (seq), entry BLOB NOT NULL);
CREATE TABLE receipts (seq INTEGER PRIMARY KEY, log_index INTEGER NOT NULL, receipt TEXT NOT NULL);
CREATE TABLE checkpoint (size INTEGER NOT NULL, root BLOB NOT NULL);
CREATE TABLE probe (filler BLOB NOT NULL);
"""


def open_database(path: Path, made: MadeBefore | None = None) -> sqlite3.Connection:
    """A connection in autocommit mode, its tables made; raises StorageError.

    With `made` it is checked first that nothing is damaged, and that what was made here before is there.
    """
    private_folder(path.parent)
    if made is not None:
        made.require_file()
    with storage_errors(path):
        make_private(path)
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_MS / 1000
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            # What was not delivered yet cannot lose its vault row.
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            if made is not None:
                made.require_content(connection)
            _make_tables(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into StorageError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise storage_error(path, error) from error


def storage_error(path: Path, error: Exception) -> StorageError:
    """What a database error means for whoever runs the device; never quotes a value."""
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    if "FULL" in name or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(f"Cannot write {path}", "the disk is full", "free some space")
    if "CORRUPT" in name or "NOTADB" in name:
        return StorageError(
            f"{path} is damaged",
            f"SQLite says {name}",
            "stop the device, keep a copy of the file, restore it from a backup",
        )
    return StorageError(
        f"Cannot use {path}", f"SQLite says {name}", "check the folder's owner, mode and disk"
    )


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"{path} was written by a newer version", f"its format is {version}", "install that version again"
        )
    if version == 0:
        connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
