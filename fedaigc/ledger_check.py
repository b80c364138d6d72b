"""Check a receipt offline: no network, no database, only the receipt's text and the log's public key."""

from __future__ import annotations

from dataclasses import dataclass

from fedaigc.ledger_entry import LedgerEntry
from fedaigc.ledger_tree import leaf_hash, verify_inclusion
from fedaigc.receipt import Receipt
from fedaigc.signed_note import Checkpoint, open_checkpoint


@dataclass(frozen=True)
class CheckedEntry:
    """An entry that the log is proven to hold at `index`, under the checkpoint that the log signed."""

    entry: LedgerEntry
    index: int
    checkpoint: Checkpoint


def check_receipt(receipt_text: str, log_vkey: str) -> CheckedEntry:
    """The receipt's entry, once the log's signature, the inclusion proof and the entry's form all check.

    Raises VerificationFailed otherwise, and nothing else.
    """
    receipt = Receipt.from_text(receipt_text)
    checkpoint = open_checkpoint(receipt.checkpoint, log_vkey)
    leaf = leaf_hash(receipt.entry)
    verify_inclusion(leaf, receipt.index, checkpoint.size, receipt.proof, checkpoint.root)
    return CheckedEntry(LedgerEntry.from_bytes(receipt.entry), receipt.index, checkpoint)
