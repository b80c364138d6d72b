"""The root binds an update to recorded answers, and nobody can guess back what they were."""

from __future__ import annotations

from dataclasses import replace

from fedaigc.ledger_tree import leaf_hash, node_hash
from fedaigc_edge.learn.fingerprint_root import fingerprint_root
from tests.learning_values import some_pairs


def _random(count: int) -> bytes:
    return b"\x77" * count


def test_recorded_answers_are_leaves_by_their_commitments_and_a_random_leaf_is_last() -> None:
    one, two = some_pairs(2)
    one, two = replace(one, commitments=(b"\x01" * 32,)), replace(two, commitments=(b"\x02" * 32,))
    learned = fingerprint_root([one, two], _random)
    assert learned.leaves == (b"\x01" * 32, b"\x02" * 32, b"\x77" * 32)
    first, second, third = map(leaf_hash, learned.leaves)
    assert learned.root == node_hash(node_hash(first, second), third)


def test_an_answer_in_two_pairs_is_one_leaf() -> None:
    pairs = [replace(pair, commitments=(b"\x01" * 32,)) for pair in some_pairs(2)]
    assert len(fingerprint_root(pairs, _random).leaves) == 2


def test_equal_pairs_give_different_roots_each_time() -> None:
    pairs = some_pairs(3)
    one, two = fingerprint_root(pairs), fingerprint_root(pairs)
    assert one.root != two.root
    assert not set(one.leaves) & set(two.leaves)
    assert len(one.leaves) == 4


def test_even_known_commitments_do_not_give_the_root_away() -> None:
    pairs = [replace(pair, commitments=(bytes([n]) * 32,)) for n, pair in enumerate(some_pairs(2), start=1)]
    guessed = node_hash(leaf_hash(b"\x01" * 32), leaf_hash(b"\x02" * 32))
    assert fingerprint_root(pairs).root != guessed
