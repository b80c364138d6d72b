from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from fedaigc import ledger_check
from fedaigc.errors import VerificationFailed
from fedaigc.ledger_check import check_receipt
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.ledger_tree import leaf_hash, node_hash
from fedaigc.receipt import Receipt
from fedaigc.signed_note import LogSigner
from fedaigc.signing import SigningKey

ENTRIES = [
    LedgerEntry("revocation", None, 29_900_000 + number, {"reason": f"number {number}"})
    for number in range(3)
]
SIGNER = LogSigner("ledger.example", SigningKey.generate())


def receipt_for_the_third() -> Receipt:
    first, second, third = (leaf_hash(entry.to_bytes()) for entry in ENTRIES)
    left = node_hash(first, second)
    return Receipt(2, (left,), SIGNER.sign_checkpoint(3, node_hash(left, third)), ENTRIES[2].to_bytes())


def test_a_receipt_checks_with_nothing_but_the_logs_key() -> None:
    checked = check_receipt(receipt_for_the_third().to_text(), SIGNER.vkey())
    assert (checked.entry, checked.index, checked.checkpoint.size) == (ENTRIES[2], 2, 3)


def test_a_receipt_of_another_log_is_refused() -> None:
    for other in (LogSigner("ledger.example", SigningKey.generate()), LogSigner("other.example", SIGNER.key)):
        with pytest.raises(VerificationFailed):
            check_receipt(receipt_for_the_third().to_text(), other.vkey())


def test_an_entry_index_proof_or_checkpoint_that_was_changed_is_refused() -> None:
    good = receipt_for_the_third()
    for bad in (
        replace(good, entry=ENTRIES[1].to_bytes()),
        replace(good, index=1),
        replace(good, index=3),
        replace(good, proof=(bytes(32),)),
        replace(good, proof=()),
        replace(good, checkpoint=SIGNER.sign_checkpoint(3, bytes(32))),
        replace(good, checkpoint=SIGNER.sign_checkpoint(4, bytes(32))),
    ):
        with pytest.raises(VerificationFailed):
            check_receipt(bad.to_text(), SIGNER.vkey())


def test_a_proven_leaf_that_is_not_an_entry_is_refused() -> None:
    data = b"not an entry"
    receipt = Receipt(0, (), SIGNER.sign_checkpoint(1, leaf_hash(data)), data)
    with pytest.raises(VerificationFailed):
        check_receipt(receipt.to_text(), SIGNER.vkey())


def test_the_verifier_shares_no_code_with_the_server_and_uses_no_network() -> None:
    tree = ast.parse(Path(ledger_check.__file__).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    allowed = {"ledger_tree", "canonical", "signing", "fingerprint", "signed_note", "receipt", "ledger_entry"}
    assert imported <= {"__future__", "dataclasses"} | {f"fedaigc.{name}" for name in allowed}
    assert not any(isinstance(node, ast.Import) for node in ast.walk(tree))
