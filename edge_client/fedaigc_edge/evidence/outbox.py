"""Durable queue of entries for the ledger: sealed before the answer ends, sent at least once, counted once.

Outbox, vault and receipts are one database, so one transaction seals an output: a crash leaves all of it or
nothing. Sequence numbers come from that transaction, so they have no gap and never repeat. The highest one
that anybody was told of is marked beside the database, so that an old copy put back is refused.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaigc.errors import StorageError
from fedaigc.fingerprint import new_salt
from fedaigc.identifiers import NodeId
from fedaigc.made_before import MadeBefore
from fedaigc.sealing import SealingPublicKey
from fedaigc_edge.evidence.database import open_database, storage_errors
from fedaigc_edge.evidence.group_commit import GroupCommit
from fedaigc_edge.evidence.output import Output, SealedOutput, month_of_minute, seal_output
from fedaigc_edge.evidence.receipt_check import CheckedReceipt, PendingEntry, SeenCheckpoint

PROBE_BYTES = 16_384
"""More than a seal writes, so that there is room for one when the probe found room."""


@dataclass(frozen=True)
class OutboxCounts:
    """How many outputs this node sealed, ever, and how many of them the ledger has not confirmed yet."""

    sealed: int
    pending: int


@dataclass(frozen=True)
class StoredReceipt:
    """What is known of one request: its number, and the receipt's text once the ledger answered."""

    seq: int
    text: str | None = field(repr=False)


SYNC_MARK_EVERY = 64
"""A power cut may take the mark back by fewer outputs than this: an old copy that is so much older passes."""


class Outbox:
    """The evidence database of one node. Writing is done by one thread; every method may be called from any.

    Args:
        path: the database file, made if missing.
        node: whose outputs these are; a database of another node is refused.
        tenant: the key that openings are sealed to.
        now: Unix seconds.
        salt: 32 random bytes a call.

    Raises StorageError.
    """

    def __init__(
        self,
        path: Path,
        node: NodeId,
        tenant: SealingPublicKey,
        now: Callable[[], float] = time.time,
        salt: Callable[[], bytes] = new_salt,
    ) -> None:
        self._path = path
        self._node = node
        self._tenant = tenant
        self._now = now
        self._salt = salt
        self._made = made_before(path, node)
        self._marked: int | None = None
        self._writer = GroupCommit(path, self._made, self._mark)
        try:
            self._reader = open_database(path)
            self._read_lock = threading.Lock()
            self._writer.submit(self._claim).result()
        except BaseException:
            self._writer.close()
            raise

    def seal(self, output: Output) -> Future[SealedOutput]:
        """Number and seal one output; the future is done once its evidence is on disk.

        The future holds StorageError when it could not be written. Then nothing was recorded, unless only the
        mark could not be: such evidence goes to the ledger though nobody got the answer's end.
        """
        return self._writer.submit(lambda connection: self._seal(connection, output))

    def probe(self) -> Future[None]:
        """Write and undo something, to learn whether a seal would succeed; holds StorageError if not."""
        return self._writer.submit(_probe)

    def pending(self, limit: int, max_bytes: int) -> list[PendingEntry]:
        """The oldest entries without a receipt, at most `limit`, together at most about `max_bytes`."""
        rows = self._read(
            "SELECT o.seq, v.month, o.entry, v.opening, v.raw, v.canonical FROM outbox o"
            " JOIN vault v USING (seq) ORDER BY o.seq LIMIT ?",
            limit,
        )
        chosen: list[PendingEntry] = []
        size = 0
        for row in rows:
            entry = PendingEntry(*row)
            size += entry.size
            if chosen and size > max_bytes:
                break
            chosen.append(entry)
        return chosen

    def acknowledge(self, receipts: Sequence[CheckedReceipt]) -> Future[int]:
        """Keep checked receipts and take their entries off the queue; doing it twice changes nothing.

        The future holds how many entries left the queue.
        """
        return self._writer.submit(lambda connection: _acknowledge(connection, receipts))

    def receipt_of(self, request: str) -> StoredReceipt | None:
        """What is known of a request; None when nothing was sealed under that name."""
        rows = self._read(
            "SELECT v.seq, r.receipt FROM vault v LEFT JOIN receipts r USING (seq) WHERE v.request = ?",
            request,
        )
        return StoredReceipt(*rows[0]) if rows else None

    def seen_checkpoint(self) -> SeenCheckpoint | None:
        """The largest checkpoint that any kept receipt leads to."""
        rows = self._read("SELECT size, root FROM checkpoint ORDER BY size DESC LIMIT 1")
        return SeenCheckpoint(*rows[0]) if rows else None

    def counts(self) -> OutboxCounts:
        """Sealed and pending outputs, read from disk; takes no longer the more there are."""
        return OutboxCounts(*self._read("SELECT last_seq, last_seq - delivered FROM owner")[0])

    def close(self) -> None:
        """Finish what was submitted and close the database."""
        self._writer.close()
        with self._read_lock:
            self._reader.close()

    def _read(self, query: str, *values: str | int) -> list[Any]:
        with self._read_lock, storage_errors(self._path):
            return self._reader.execute(query, values).fetchall()

    def _claim(self, connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT node FROM owner").fetchone()
        if row is None:
            connection.execute("INSERT INTO owner VALUES (?, 0, 0)", (self._node,))
        elif row[0] != self._node:
            raise StorageError(
                f"{self._path} holds the evidence of another node",
                f"it belongs to {row[0]}, this device is {self._node}",
                "move the file away and keep it: its receipts still prove what that node made",
            )
        self._made.require_height(_last_seq(connection))
        self._marked = -1

    def _mark(self, connection: sqlite3.Connection) -> None:
        # A database that is not ours gets no marker of ours.
        if self._marked is None:
            return
        last = _last_seq(connection)
        if self._marked < 0:
            self._made.remember(connection, last)
        elif last > self._marked:
            # A sync a seal would double what evidence costs; every answer waits for it.
            synced = last // SYNC_MARK_EVERY > self._marked // SYNC_MARK_EVERY
            (self._made.note if synced else self._made.note_unsynced)(last)
        self._marked = last

    def _seal(self, connection: sqlite3.Connection, output: Output) -> SealedOutput:
        last = _last_seq(connection)
        minute = int(self._now() // 60)
        sealed = seal_output(output, self._node, last + 1, minute, self._salt(), self._tenant)
        month = month_of_minute(minute)
        fingerprint = sealed.fingerprint
        digests = (sealed.salt, fingerprint.raw, fingerprint.canonical)
        connection.execute("UPDATE owner SET last_seq = ?", (sealed.seq,))
        connection.execute(
            "INSERT INTO vault (seq, request, month, salt, raw, canonical, record, opening)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (sealed.seq, output.request, month, *digests, json.dumps(sealed.record), sealed.opening),
        )
        connection.execute("INSERT INTO outbox VALUES (?, ?)", (sealed.seq, sealed.entry))
        return sealed


def made_before(path: Path, node: NodeId) -> MadeBefore:
    """What is known beside evidence.db of how far `node` had got: its height is the last answer's number."""
    return MadeBefore(
        path,
        node,
        "answers would be numbered twice, and the ledger would refuse them",
        "answers",
        "if none is left, begin as a new node: fedaigc-edge leave --force, then join with a new token",
    )


def _last_seq(connection: sqlite3.Connection) -> int:
    (last,) = connection.execute("SELECT last_seq FROM owner").fetchone()
    return int(last)


def _probe(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO probe VALUES (zeroblob(?))", (PROBE_BYTES,))
    connection.execute("DELETE FROM probe")


def _acknowledge(connection: sqlite3.Connection, receipts: Sequence[CheckedReceipt]) -> int:
    left = 0
    for receipt in receipts:
        gone = connection.execute("DELETE FROM outbox WHERE seq = ?", (receipt.seq,)).rowcount
        if gone:
            connection.execute(
                "INSERT INTO receipts VALUES (?, ?, ?)", (receipt.seq, receipt.index, receipt.text)
            )
        left += gone
    connection.execute("UPDATE owner SET delivered = delivered + ?", (left,))
    if receipts:
        newest = max((receipt.checkpoint for receipt in receipts), key=lambda checkpoint: checkpoint.size)
        (known,) = connection.execute("SELECT coalesce(max(size), -1) FROM checkpoint").fetchone()
        if newest.size > known:
            connection.execute("DELETE FROM checkpoint")
            connection.execute("INSERT INTO checkpoint VALUES (?, ?)", (newest.size, newest.root))
    return left
