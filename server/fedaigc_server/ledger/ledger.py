"""The append-only ledger on the server: durable, provable, and silent about content."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType

from fedaigc.errors import LedgerError, RequestInvalid, VerificationFailed
from fedaigc.ledger_entry import MAX_ENTRY_BYTES
from fedaigc.ledger_tree import (
    NodeReader,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root,
    verify_growth,
    verify_inclusion,
)
from fedaigc.receipt import Receipt
from fedaigc.signed_note import LogSigner, open_checkpoint
from fedaigc_server.ledger import rows
from fedaigc_server.ledger.ledger_file import LedgerFile
from fedaigc_server.ledger.output_item import OutputItem
from fedaigc_server.ledger.signed_mark import SignedMark, TreeHead, facts

MAX_BATCH = 10_000
"""Entries that one transaction may append, so that no commit keeps the others waiting for long."""

MAX_MATCHES = 100
"""Matches that one search returns; it counts them all."""


@dataclass(frozen=True)
class Match:
    """An output that carries a tag which was searched for."""

    index: int
    month: str
    opening: bytes | None
    """Sealed to the tenant's key; None after it was erased."""


class Ledger:
    """All entries, their tree and their signed checkpoints in one file; threads may share it.

    What a method returned is on the disk, and what it signed is marked beside the file before it is returned.
    Nothing is kept in memory between calls, so a second process can make it neither forget nor sign twice.
    Any method raises StorageError when the disk is full, or the file was damaged or changed; then nothing of
    that call was written, or nobody was told of it.
    """

    def __init__(self, file: LedgerFile, signer: LogSigner, mark: SignedMark) -> None:
        self._file = file
        self._signer = signer
        self._mark = mark

    @classmethod
    def open(cls, path: Path, signer: LogSigner) -> Ledger:
        """The ledger in the file `path`, made on first use.

        Raises VerificationFailed when the stored tree is not the one that `signer` last signed: the file was
        changed or cut, or belongs to another log; StorageError when it is damaged, or older than what was
        handed out. Nothing can then be appended or signed.
        """
        mark = SignedMark(path)
        ledger = cls(LedgerFile(path, mark.made), signer, mark)
        try:
            last = ledger._check_stored_tree()
            ledger._file.remember(last.size, **facts(last))
        except BaseException:
            ledger.close()
            raise
        return ledger

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def vkey(self) -> str:
        """The public key that checks this ledger's checkpoints, as a C2SP vkey."""
        return self._signer.vkey()

    @property
    def size(self) -> int:
        """How many entries there are."""
        with self._file.reading() as db:
            return rows.entry_count(db)

    def append(self, entries: Sequence[bytes]) -> list[int]:
        """Append entries in one transaction, all or none; returns their indices once they are on the disk.

        Raises LedgerError for more than MAX_BATCH entries, or one of no usable size.
        """
        if len(entries) > MAX_BATCH:
            raise LedgerError("Too many entries at once", f"the limit is {MAX_BATCH}", "append in batches")
        if not all(0 < len(entry) <= MAX_ENTRY_BYTES for entry in entries):
            raise LedgerError(
                "An entry has no usable size", f"the limit is {MAX_ENTRY_BYTES} bytes", "split it"
            )
        with self._file.writing() as db:
            return list(rows.add_entries(db, entries))

    def append_outputs(self, node: str, items: Sequence[OutputItem]) -> list[tuple[int, int]]:
        """Append a node's outputs with their tags and openings in one transaction: (seq, index) of each.

        Idempotent by (node, seq): an entry that is delivered again keeps its first index. Raises
        RequestInvalid when an item is not an output of this node, LedgerError when a number comes with
        another entry than before.
        """
        for item in items:
            item.check(node)
        with self._file.writing() as db:
            fresh: dict[int, OutputItem] = {}
            places: dict[int, int] = {}
            for item in items:
                known = rows.recorded_output(db, node, item.seq)
                if known is not None:
                    places[item.seq] = known[0]
                before = known[1] if known else fresh.setdefault(item.seq, item).entry
                if before != item.entry:
                    raise _reused(node, item.seq)
            indices = rows.add_entries(db, [item.entry for item in fresh.values()])
            rows.add_outputs(db, node, list(zip(fresh.values(), indices, strict=True)))
            places.update(zip(fresh, indices, strict=True))
        return [(item.seq, places[item.seq]) for item in items]

    def checkpoint(self) -> str:
        """The signed checkpoint at the present size: signed once a size, and stored before it is returned."""
        with self._file.writing() as db:
            head, note = self._checkpoint(db)
        self._mark.note(head)
        return note

    def receipt(self, index: int) -> str:
        """The receipt for entry `index` under the present checkpoint; raises as `receipts`."""
        return self.receipts([index])[0]

    def receipts(self, indices: Iterable[int]) -> list[str]:
        """Receipts under the one present checkpoint, each checked before it is handed out.

        Raises RequestInvalid when there is no such entry, StorageError when the stored one was changed.
        """
        with self._file.writing() as db:
            head, note = self._checkpoint(db)
            read = cache(rows.node_reader(db))
            receipts = []
            for index in indices:
                entry = rows.read_entry(db, index)
                proof = tuple(inclusion_proof(index, head.size, read))
                try:
                    verify_inclusion(leaf_hash(entry), index, head.size, proof, head.root)
                except VerificationFailed as error:
                    raise rows.changed(f"entry {index} is not the one that was appended") from error
                receipts.append(Receipt(index, proof, note, entry).to_text())
        self._mark.note(head)
        return receipts

    def entry(self, index: int) -> bytes:
        """The bytes of entry `index`; raises RequestInvalid when there is none."""
        with self._file.reading() as db:
            return rows.read_entry(db, index)

    def consistency(self, first: int, second: int) -> list[bytes]:
        """Proof that the ledger of `second` entries extends that of `first`; raises RequestInvalid."""
        with self._file.reading() as db:
            count = rows.entry_count(db)
            if not 0 <= first <= second <= count:
                raise RequestInvalid(
                    "These sizes cannot be compared",
                    f"from {first} to {second}, and the ledger has {count} entries",
                    "ask for two sizes that it has had",
                )
            return consistency_proof(first, second, rows.node_reader(db))

    def search(self, tags: Sequence[bytes], limit: int = MAX_MATCHES) -> tuple[list[Match], int]:
        """Outputs that carry any of `tags`, first recorded first, at most `limit`; and how many there are."""
        with self._file.reading() as db:
            found, total = rows.tagged_outputs(db, tags, limit)
        return [Match(*row) for row in found], total

    def _checkpoint(self, db: sqlite3.Connection) -> tuple[TreeHead, str]:
        size = rows.entry_count(db)
        read = cache(rows.node_reader(db))
        head = TreeHead(size, root(size, read))
        note = rows.read_checkpoint(db, size)
        if note is None:
            note = self._sign(db, head, read)
            rows.add_checkpoint(db, size, note)
        elif open_checkpoint(note, self._signer.vkey()).root != head.root:
            raise rows.changed(f"the root over {size} entries is not the one that was signed")
        return head, note

    def _sign(self, db: sqlite3.Connection, head: TreeHead, read: NodeReader) -> str:
        # A log that once signs what does not follow from its last checkpoint is distrusted for ever, so a
        # file that was changed under a running server must be noticed before signing, not after.
        last = rows.last_checkpoint(db)
        if last is not None:
            signed = open_checkpoint(last[1], self._signer.vkey())
            try:
                proof = consistency_proof(signed.size, head.size, read)
                verify_growth(signed.size, head.size, proof, signed.root, head.root)
            except VerificationFailed as error:
                raise rows.changed(
                    f"it does not follow from the {signed.size} entries signed last"
                ) from error
        self._mark.require_growth(head, read)
        return self._signer.sign_checkpoint(head.size, head.root)

    def _check_stored_tree(self) -> TreeHead:
        """What was signed last; of no entries when nothing was."""
        with self._file.reading() as db:
            count, last = rows.entry_count(db), rows.last_checkpoint(db)
            if rows.leaf_count(db) != count:
                raise _unproven(f"it has {count} entries and {rows.leaf_count(db)} leaves")
            read = rows.node_reader(db)
            if last is None:
                self._mark.require_held(count, read)
                return TreeHead(0, root(0, read))
            checkpoint = open_checkpoint(last[1], self._signer.vkey())
            if checkpoint.size != last[0] or checkpoint.size > count:
                raise _unproven(f"{checkpoint.size} entries were signed for, and {count} are there")
            if root(checkpoint.size, read) != checkpoint.root:
                raise _unproven(f"the root over {checkpoint.size} entries is not the one that was signed")
            self._mark.require_held(count, read)
            return TreeHead(checkpoint.size, checkpoint.root)


def _reused(node: str, seq: int) -> LedgerError:
    return LedgerError(
        f"Node {node} used the number {seq} twice",
        "another entry was recorded under it before",
        "the device was restored from an old backup, which forgot what privacy it had spent too: on it, run"
        " fedaigc-edge leave --erase --force, then join with a new token",
    )


def _unproven(why: str) -> VerificationFailed:
    return VerificationFailed(
        "The stored ledger is not the one that was signed",
        why,
        "keep the file as evidence, and restore a backup that is at least as long",
    )
