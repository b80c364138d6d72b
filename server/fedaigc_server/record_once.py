"""Write a thing to the ledger exactly once, though ledger and server database are two files."""

from __future__ import annotations

import threading
from typing import Protocol

from fedaigc.ledger_entry import LedgerEntry
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
    since that size tell whether the append happened.
    """

    def __init__(self, database: Database, ledger: AppendOnly) -> None:
        self._database = database
        self._ledger = ledger
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
        """Complete what a crash left half-way; returns how many entries that were."""
        with self._lock:
            rows = self._database.rows("SELECT * FROM recorded WHERE position IS NULL")
            for row in rows:
                self._resume(row["key"], bytes(row["entry"]), int(row["size_before"]))
            return len(rows)

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
        return index
