"""Believe a receipt only after an offline check of signature and proof, and that the entry is ours."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field

from fedaigc.errors import VerificationFailed
from fedaigc.ledger_check import check_receipt
from fedaigc_edge.step import Maker, made_only_by


class _Check(Maker):
    """Held by this module alone."""


_CHECK = _Check()


@dataclass(frozen=True)
class PendingEntry:
    """An entry that waits for its receipt, with what its delivery needs from the vault."""

    seq: int
    month: str
    entry: bytes = field(repr=False)
    opening: bytes = field(repr=False)
    raw: bytes = field(repr=False)
    canonical: bytes = field(repr=False)

    @property
    def size(self) -> int:
        """About how many bytes it takes in a batch."""
        return 200 + 4 * (len(self.entry) + len(self.opening)) // 3


@dataclass(frozen=True)
class SeenCheckpoint:
    """A signed tree head that this device has accepted: number of entries, and the root of 32 bytes."""

    size: int
    root: bytes


@dataclass(frozen=True)
class CheckedReceipt:
    """A receipt that proves that the ledger holds our entry. Made by `check_delivered` only."""

    seq: int
    index: int
    text: str = field(repr=False)
    checkpoint: SeenCheckpoint
    maker: InitVar[_Check]

    def __post_init__(self, maker: _Check) -> None:
        made_only_by(maker, _CHECK, "check_delivered")


def check_delivered(
    pending: PendingEntry, index: int, text: str, log_vkey: str, seen: SeenCheckpoint | None
) -> CheckedReceipt:
    """Check the receipt that the server gave for `pending`.

    Args:
        pending: what was sent.
        index: where the server says the entry stands.
        text: the receipt.
        log_vkey: the log's public key from the enrolment, C2SP form.
        seen: the largest checkpoint accepted so far.

    Raises VerificationFailed when anything does not check; then the receipt must not be kept.
    """
    checked = check_receipt(text, log_vkey)
    if checked.entry.to_bytes() != pending.entry:
        raise _refused(pending, "it proves another entry than the one we sent")
    if checked.index != index:
        raise _refused(pending, f"it proves index {checked.index}, the server said {index}")
    checkpoint = SeenCheckpoint(checked.checkpoint.size, checked.checkpoint.root)
    if seen is not None and seen.size == checkpoint.size and seen.root != checkpoint.root:
        raise _refused(pending, f"the log has signed two different trees of {seen.size} entries")
    return CheckedReceipt(pending.seq, checked.index, text, checkpoint, _CHECK)


def _refused(pending: PendingEntry, why: str) -> VerificationFailed:
    return VerificationFailed(
        f"The receipt for output {pending.seq} is not valid",
        why,
        "keep evidence.db and tell the compliance officer: the log may have been changed",
    )
