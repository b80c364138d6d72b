"""Nothing but the log's own proof of our own entry is believed."""

from __future__ import annotations

import pytest

from fedaigc.errors import VerificationFailed
from fedaigc_edge.evidence.output import seal_output
from fedaigc_edge.evidence.receipt_check import CheckedReceipt, PendingEntry, SeenCheckpoint, check_delivered
from fedaigc_edge.step import Maker
from tests.edge.evidence.small_ledger import NODE, TENANT, SmallLedger, output


def pending(seq: int) -> PendingEntry:
    sealed = seal_output(output(seq), NODE, seq, 29_900_000, bytes(32), TENANT.public)
    fingerprint = sealed.fingerprint
    return PendingEntry(seq, "2026-11", sealed.entry, sealed.opening, fingerprint.raw, fingerprint.canonical)


@pytest.fixture
def ledger() -> SmallLedger:
    small = SmallLedger()
    for seq in range(1, 6):
        small.tree.append(pending(seq).entry)
    return small


def test_a_true_receipt_is_accepted(ledger: SmallLedger) -> None:
    for index in range(5):
        checked = check_delivered(
            pending(index + 1), index, ledger.receipt(index), ledger.signer.vkey(), None
        )
        assert (checked.seq, checked.index, checked.checkpoint.size) == (index + 1, index, 5)


def test_a_receipt_for_another_entry_is_refused(ledger: SmallLedger) -> None:
    with pytest.raises(VerificationFailed, match="another entry"):
        check_delivered(pending(1), 1, ledger.receipt(1), ledger.signer.vkey(), None)


def test_another_index_than_the_proven_one_is_refused(ledger: SmallLedger) -> None:
    with pytest.raises(VerificationFailed, match="proves index 0"):
        check_delivered(pending(1), 3, ledger.receipt(0), ledger.signer.vkey(), None)


def test_another_logs_signature_is_refused(ledger: SmallLedger) -> None:
    other = SmallLedger()
    other.tree = ledger.tree
    with pytest.raises(VerificationFailed):
        check_delivered(pending(1), 0, other.receipt(0), ledger.signer.vkey(), None)


@pytest.mark.parametrize("place", [30, 800, -60, -5])
def test_any_change_of_the_text_is_refused(ledger: SmallLedger, place: int) -> None:
    text = ledger.receipt(0)
    place %= len(text)
    changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
    with pytest.raises(VerificationFailed):
        check_delivered(pending(1), 0, changed, ledger.signer.vkey(), None)


def test_two_trees_of_one_size_are_refused(ledger: SmallLedger) -> None:
    seen = SeenCheckpoint(5, b"\x07" * 32)
    with pytest.raises(VerificationFailed, match="two different trees"):
        check_delivered(pending(1), 0, ledger.receipt(0), ledger.signer.vkey(), seen)


def test_a_checked_receipt_cannot_be_made_without_the_check() -> None:
    with pytest.raises(VerificationFailed):
        CheckedReceipt(1, 0, "", SeenCheckpoint(1, b""), Maker())  # type: ignore[arg-type]
