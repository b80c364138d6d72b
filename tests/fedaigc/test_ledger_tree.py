from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import sha256

import pytest
from pymerkle import InmemoryTree

from fedaigc.errors import VerificationFailed
from fedaigc.ledger_tree import (
    EMPTY_ROOT,
    HASH_BYTES,
    MAX_SIZE,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    new_nodes,
    node_hash,
    root,
    verify_consistency,
    verify_growth,
    verify_inclusion,
)

LEAVES = [bytes.fromhex(leaf) for leaf in ("", "00", "10", "2021", "3031", "40414243")] + [
    bytes(range(0x50, 0x58)),
    bytes(range(0x60, 0x70)),
]
LARGEST = 40


class StoredNodes:
    """The tree as the server stores it: complete subtrees only; counts what is read."""

    def __init__(self, leaves: Sequence[bytes] = (), batch: int = 1) -> None:
        self.nodes: dict[tuple[int, int], bytes] = {}
        self.reads = 0
        self.size = 0
        for start in range(0, len(leaves), batch):
            self.append(leaves[start : start + batch])

    def append(self, leaves: Sequence[bytes]) -> None:
        added = list(new_nodes(self.size, [leaf_hash(leaf) for leaf in leaves], self.read))
        for level, index, digest in added:
            assert (level, index) not in self.nodes
            self.nodes[level, index] = digest
        self.size += len(leaves)

    def read(self, level: int, index: int) -> bytes:
        self.reads += 1
        return self.nodes[level, index]


def plain_root(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962 2.1, word for word: the definition that everything else must agree with."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaf_hash(leaves[0])
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return node_hash(plain_root(leaves[:half]), plain_root(leaves[half:]))


def entries(count: int) -> list[bytes]:
    return [b"entry %d" % number for number in range(count)]


def test_the_rfc_6962_reference_tree_has_its_published_roots() -> None:
    tree = StoredNodes(LEAVES)
    assert root(8, tree.read).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    assert root(0, tree.read) == EMPTY_ROOT
    assert EMPTY_ROOT.hex().startswith("e3b0c442")


def test_the_root_is_the_rfcs_whatever_the_batches() -> None:
    leaves = entries(67)
    for batch in (1, 2, 3, 7, 32, 67):
        tree = StoredNodes(leaves, batch)
        assert [root(size, tree.read) for size in range(68)] == [
            plain_root(leaves[:size]) for size in range(68)
        ]


def test_roots_and_inclusion_proofs_agree_with_pymerkle() -> None:
    leaves = entries(LARGEST)
    tree, other = StoredNodes(leaves), InmemoryTree.init_from_entries(leaves, algorithm="sha256")
    for size in range(1, LARGEST + 1):
        assert root(size, tree.read) == other.get_root(size)
        for index in range(size):
            # pymerkle counts leaves from 1, and its path begins with the leaf itself.
            path = other.prove_inclusion(index + 1, size).serialize()["path"][1:]
            assert inclusion_proof(index, size, tree.read) == [bytes.fromhex(step) for step in path]


def test_every_inclusion_proof_verifies_at_its_own_place_only() -> None:
    leaves = entries(LARGEST)
    tree = StoredNodes(leaves)
    for size in range(1, LARGEST + 1):
        top = root(size, tree.read)
        for index in range(size):
            proof = inclusion_proof(index, size, tree.read)
            leaf = leaf_hash(leaves[index])
            verify_inclusion(leaf, index, size, proof, top)
            for elsewhere in {0, index + 1, size // 2} - {index}:
                with pytest.raises(VerificationFailed):
                    verify_inclusion(leaf, elsewhere, size, proof, top)
            with pytest.raises(VerificationFailed):
                verify_inclusion(leaf_hash(b"forged"), index, size, proof, top)


def test_every_consistency_proof_verifies_and_every_change_to_it_is_refused() -> None:
    tree = StoredNodes(entries(LARGEST))
    roots = [root(size, tree.read) for size in range(LARGEST + 1)]
    for second in range(1, LARGEST + 1):
        for first in range(1, second + 1):
            proof = consistency_proof(first, second, tree.read)
            verify_consistency(first, second, proof, roots[first], roots[second])
            forged = bytes(HASH_BYTES)
            changes = [[*proof, forged], [forged, *proof]]
            changes += [[*proof[:place], forged, *proof[place + 1 :]] for place in range(len(proof))]
            changes += [proof[:-1], proof[1:]] if proof else []
            for changed in changes:
                with pytest.raises(VerificationFailed):
                    verify_consistency(first, second, changed, roots[first], roots[second])
            with pytest.raises(VerificationFailed):
                verify_consistency(first, second, proof, forged, roots[second])
            with pytest.raises(VerificationFailed):
                verify_consistency(first, second, proof, roots[first], forged)


def test_the_consistency_proof_from_6_to_8_is_the_rfcs_three_hashes() -> None:
    proof = consistency_proof(6, 8, StoredNodes(LEAVES).read)
    assert [step.hex()[:8] for step in proof] == ["0ebc5d34", "ca854ea1", "d37ee418"]


def test_growth_from_nothing_needs_no_proof_but_the_strict_check_refuses_it() -> None:
    tree = StoredNodes(entries(5))
    assert consistency_proof(0, 5, tree.read) == []
    verify_growth(0, 5, [], EMPTY_ROOT, root(5, tree.read))
    verify_growth(3, 5, consistency_proof(3, 5, tree.read), root(3, tree.read), root(5, tree.read))
    with pytest.raises(VerificationFailed):
        verify_consistency(0, 5, [], EMPTY_ROOT, root(5, tree.read))
    with pytest.raises(VerificationFailed):
        verify_growth(0, 5, [bytes(HASH_BYTES)], EMPTY_ROOT, root(5, tree.read))


def test_proofs_from_a_large_tree_need_a_logarithm_of_reads() -> None:
    size = 5_000
    tree = StoredNodes(entries(size), batch=1_000)
    limit = 2 * size.bit_length()
    chosen = random.Random(7)
    for _ in range(50):
        tree.reads = 0
        inclusion_proof(chosen.randrange(size), size, tree.read)
        assert tree.reads <= limit
        tree.reads = 0
        consistency_proof(chosen.randrange(1, size), size, tree.read)
        assert tree.reads <= limit
    tree.reads = 0
    tree.append(entries(3))
    assert tree.reads <= size.bit_length()


def test_a_proof_of_the_wrong_length_is_refused_before_any_hashing() -> None:
    huge = [bytes(HASH_BYTES)] * 100_000
    with pytest.raises(VerificationFailed, match="wrong length"):
        verify_inclusion(bytes(HASH_BYTES), 3, 8, huge, bytes(HASH_BYTES))
    with pytest.raises(VerificationFailed, match="wrong length"):
        verify_consistency(3, 8, huge, bytes(HASH_BYTES), bytes(HASH_BYTES))


@pytest.mark.parametrize(
    ("index", "size"), [(-1, 4), (4, 4), (0, 0), (0, -1), (0, MAX_SIZE + 1), (MAX_SIZE, MAX_SIZE)]
)
def test_an_impossible_place_is_neither_proven_nor_believed(index: int, size: int) -> None:
    tree = StoredNodes(entries(4))
    with pytest.raises(VerificationFailed):
        inclusion_proof(index, size, tree.read)
    with pytest.raises(VerificationFailed):
        verify_inclusion(bytes(HASH_BYTES), index, size, [], bytes(HASH_BYTES))


@pytest.mark.parametrize(("first", "second"), [(-1, 4), (5, 4), (1, MAX_SIZE + 1)])
def test_impossible_sizes_are_neither_proven_nor_believed(first: int, second: int) -> None:
    with pytest.raises(VerificationFailed):
        consistency_proof(first, second, StoredNodes(entries(4)).read)
    with pytest.raises(VerificationFailed):
        verify_consistency(first, second, [], bytes(HASH_BYTES), bytes(HASH_BYTES))


def test_a_hash_of_another_length_is_refused() -> None:
    with pytest.raises(VerificationFailed, match="not a hash"):
        verify_inclusion(b"short", 0, 1, [], b"short")
