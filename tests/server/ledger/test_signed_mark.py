"""What was handed out is remembered apart from the ledger, and a ledger must go on from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import StorageError
from fedaigc.ledger_tree import NodeReader, leaf_hash, new_nodes, root
from fedaigc_server.ledger.signed_mark import SignedMark, TreeHead


def _tree(*entries: bytes) -> tuple[TreeHead, NodeReader]:
    nodes: dict[tuple[int, int], bytes] = {}

    def read(level: int, index: int) -> bytes:
        return nodes[level, index]

    for level, index, digest in new_nodes(0, [leaf_hash(entry) for entry in entries], read):
        nodes[level, index] = digest
    return TreeHead(len(entries), root(len(entries), read)), read


def test_the_largest_head_is_kept_whoever_notes_it(path: Path) -> None:
    small, large = _tree(b"a")[0], _tree(b"a", b"b", b"c")[0]
    mark = SignedMark(path)
    assert mark.head() is None
    mark.note(large)
    mark.note(small)
    SignedMark(path).note(small)
    assert SignedMark(path).head() == large


def test_a_tree_that_goes_on_is_held_and_may_be_signed(path: Path) -> None:
    mark = SignedMark(path)
    for entries in (b"a", b"ab", b"abcde"):
        head, read = _tree(*(bytes([entry]) for entry in entries))
        mark.require_growth(head, read)
        mark.note(head)
        mark.require_held(head.size, read)


@pytest.mark.parametrize("entries", [b"", b"ab", b"abx", b"abxd"])
def test_a_tree_that_was_cut_or_is_another_is_neither_held_nor_signed(path: Path, entries: bytes) -> None:
    mark = SignedMark(path)
    mark.note(_tree(b"a", b"b", b"c")[0])
    head, read = _tree(*(bytes([entry]) for entry in entries))
    with pytest.raises(StorageError, match="old copy"):
        mark.require_held(head.size, read)
    with pytest.raises(StorageError, match="old copy"):
        mark.require_growth(head, read)
