"""Write a thing to the ledger exactly once, though ledger and server database are two files."""

from __future__ import annotations

import threading
from typing import Protocol

from fedaigc.errors import StorageError
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.made_before import MadeBefore
from fedaigc_server.database import Database

SCHEMA = """
CREATE TABLE IF NOT EXISTS recorded (
    key TEXT PRIMARY KEY, entry BLOB NOT NULL, size_before INTEGER NOT NULL, position INTEGER
) STRICT;
"""


class AppendOnly(Protocol):
    """The part of the ledger that recording needs."""

    @property
    def size(self) -> int:
        """How many entries the ledger has."""

    def append(self, entries: list[bytes]) -> list[int]:
        """Append durably; the indices."""

    def entry(self, index: int) -> bytes:
        """The bytes of one entry."""


class RecordOnce:
    """Append an entry under a key such as `enrolment:n-..`; the same key never makes a second entry.

    The intent, with the ledger's size, is stored first. After a crash between the two databases, the entries
    since that size tell whether the append happened. How many things were recorded is marked beside the
    server's database (`made`), so that an old copy of it is told from the one that was last in use.
    """

    def __init__(self, database: Database, ledger: AppendOnly, made: MadeBefore | None = None) -> None:
        self._database = database
        self._ledger = ledger
        self._made = made
        self._lock = threading.Lock()

    def record(self, key: str, entry: LedgerEntry) -> int:
        """The entry's index; a key that is known gives the first entry's index and changes nothing."""
        with self._lock:
            row = self._database.row("SELECT * FROM recorded WHERE key = ?", (key,))
            if row is None:
                data, before = entry.to_bytes(), self._ledger.size
                with self._database.transaction() as write:
                    write.execute("INSERT INTO recorded VALUES (?,?,?,NULL)", (key, data, before))
                return self._append(key, data)
            if row["position"] is not None:
                return int(row["position"])
            return self._resume(key, bytes(row["entry"]), int(row["size_before"]))

    def finish(self) -> int:
        """Complete what a crash left half-way; returns how many entries that were.

        Raises StorageError when the database, or the ledger, is older than what was recorded.
        """
        with self._lock:
            self._require_nothing_forgotten()
            rows = self._database.rows("SELECT * FROM recorded WHERE position IS NULL")
            for row in rows:
                self._resume(row["key"], bytes(row["entry"]), int(row["size_before"]))
            if self._made is not None:
                self._database.remember(self._made, self._count())
            return len(rows)

    def _require_nothing_forgotten(self) -> None:
        if self._made is not None:
            self._made.require_height(self._count())
        row = self._database.row("SELECT max(position) AS last FROM recorded")
        last = -1 if row is None or row["last"] is None else int(row["last"])
        if last >= self._ledger.size:
            raise StorageError(
                "The ledger is older than the server's database",
                f"entry {last} was recorded, and it has {self._ledger.size}: an old copy was put back",
                "put the newest copy of ledger.db back, with its -wal file if there is one",
            )

    def _count(self) -> int:
        # Rows are never deleted, so the last one's number is how many there are.
        row = self._database.row("SELECT max(rowid) AS made FROM recorded")
        return int(row["made"] or 0) if row else 0

    def _resume(self, key: str, data: bytes, before: int) -> int:
        for index in range(before, self._ledger.size):
            if self._ledger.entry(index) == data:
                return self._note(key, index)
        return self._append(key, data)

    def _append(self, key: str, data: bytes) -> int:
        return self._note(key, self._ledger.append([data])[0])

    def _note(self, key: str, index: int) -> int:
        with self._database.transaction() as write:
            write.execute("UPDATE recorded SET position = ? WHERE key = ?", (index, key))
        if self._made is not None:
            self._made.note(self._count())
        return index
