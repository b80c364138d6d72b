"""The largest tree head that left this server, kept beside ledger.db: the log can only go on from there.

A checkpoint is committed, then marked here, and only then handed out. Killed in between, the next start marks
it; nobody has seen it. A ledger that does not hold what is marked was cut, emptied or put back from an old
copy: signing from it would make a second log under the same key, which is what a fork is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.ledger_tree import NodeReader, consistency_proof, root, verify_growth
from fedaigc.made_before import MadeBefore

OWNER = "server"


@dataclass(frozen=True)
class TreeHead:
    """How many entries, and the root over them, 32 bytes."""

    size: int
    root: bytes


class SignedMark:
    """The mark of the ledger in the file `path`; threads and processes may share it. Raises StorageError."""

    def __init__(self, path: Path) -> None:
        self.made = MadeBefore(
            path,
            OWNER,
            "the log key would sign a second log, which is a fork",
            "entries",
            "if none is left, this log cannot go on: set up another server and let the devices join it",
        )
        self._known = -1

    def head(self) -> TreeHead | None:
        """What was handed out last; None before the first."""
        mark = self.made.reached()
        if mark is None or "root" not in mark.facts:
            return None
        return TreeHead(mark.height, bytes.fromhex(str(mark.facts["root"])))

    def note(self, head: TreeHead) -> None:
        """Mark `head` before it is handed out; a smaller one changes nothing. Raises StorageError."""
        # Only a hint that spares a sync: what is on the disk decides.
        if head.size > self._known:
            self.made.note(head.size, **facts(head))
            self._known = head.size

    def require_held(self, size: int, read: NodeReader) -> None:
        """Raise StorageError unless the stored tree of `size` entries begins with the one that is marked."""
        head = self.head()
        if head is None:
            return
        self.made.require_height(size)
        if root(head.size, read) != head.root:
            raise self._another(head)

    def require_growth(self, grown: TreeHead, read: NodeReader) -> None:
        """Raise StorageError unless `grown`, which is to be signed, follows from what is marked."""
        head = self.head()
        if head is None or head == grown:
            return
        self.made.require_height(grown.size)
        try:
            proof = consistency_proof(head.size, grown.size, read)
            verify_growth(head.size, grown.size, proof, head.root, grown.root)
        except VerificationFailed as error:
            raise self._another(head) from error

    def _another(self, head: TreeHead) -> StorageError:
        return self.made.older(f"its first {head.size} entries are not the ones that were signed")


def facts(head: TreeHead) -> dict[str, str]:
    """What is marked beside the size."""
    return {"root": head.root.hex()}
