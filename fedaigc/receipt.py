"""The receipt for one entry: proof that a log holds it, checkable with nothing but the log's key.

The format is c2sp.org/tlog-proof, with the entry itself in the `extra` line; the proof, not that line, is
what makes the entry believable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fedaigc.errors import VerificationFailed
from fedaigc.ledger_entry import MAX_ENTRY_BYTES
from fedaigc.ledger_tree import HASH_BYTES
from fedaigc.signed_note import MAX_NOTE_BYTES
from fedaigc.signing import b64, unb64

HEADER = "c2sp.org/tlog-proof@v1"
FILE_SUFFIX = ".tlog-proof"
MAX_PROOF_HASHES = 63
MAX_RECEIPT_BYTES = 2 * MAX_ENTRY_BYTES + 64 * (MAX_PROOF_HASHES + 2) + MAX_NOTE_BYTES

_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})")


@dataclass(frozen=True)
class Receipt:
    """An entry, its place, its inclusion proof and the checkpoint it leads to; not yet checked."""

    index: int
    """Counted from 0."""
    proof: tuple[bytes, ...]
    """Hashes of 32 bytes, from the leaf's sibling to the root's child."""
    checkpoint: str
    """The signed note, verbatim."""
    entry: bytes

    def to_text(self) -> str:
        """The receipt as text, to be stored as `.tlog-proof`."""
        lines = [HEADER, f"extra {b64(self.entry)}", f"index {self.index}", *map(b64, self.proof)]
        return "\n".join(lines) + "\n\n" + self.checkpoint

    @classmethod
    def from_text(cls, text: str) -> Receipt:
        """Read a receipt; sizes are checked first. Raises VerificationFailed when it is malformed."""
        if len(text) > MAX_RECEIPT_BYTES:
            raise _malformed(f"it has more than {MAX_RECEIPT_BYTES} characters")
        head, _, checkpoint = text.partition("\n\n")
        lines = head.split("\n", MAX_PROOF_HASHES + 3)
        index = _INDEX.fullmatch(lines[2]) if len(lines) > 2 else None
        if lines[0] != HEADER or index is None or not lines[1].startswith("extra "):
            raise _malformed("its first lines must be the format's name, the entry and the index")
        if len(lines) > MAX_PROOF_HASHES + 3:
            raise _malformed(f"no proof has more than {MAX_PROOF_HASHES} hashes")
        proof = tuple(unb64(line, HASH_BYTES) for line in lines[3:])
        return cls(int(index[1]), proof, checkpoint, unb64(lines[1].removeprefix("extra ")))


def _malformed(why: str) -> VerificationFailed:
    return VerificationFailed("This is not a complete receipt", why, "save it again from the ledger")
