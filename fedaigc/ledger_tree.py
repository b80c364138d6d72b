"""The ledger's hash tree (RFC 6962 / RFC 9162, SHA-256): root, inclusion proof, consistency proof.

Hashes of complete subtrees never change, so they are stored once, at (level, index): the subtree of 2**level
leaves that starts at leaf index * 2**level. Everything else is folded from O(log n) of them. A ragged right
edge is never padded or duplicated: RFC 6962 does neither.

Indices count from 0. A hash is 32 bytes. A proof is a list of hashes from the leaf's side to the root's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

from fedaigc.errors import VerificationFailed

HASH_BYTES = 32
MAX_SIZE = 2**63 - 1
"""More leaves than any store can index; a larger number in a proof is refused before any work."""

# RFC 6962 2.1: the prefixes keep a leaf from being passed off as an inner node, and the reverse.
LEAF_PREFIX = b"\x00"
NODE_PREFIX = b"\x01"

EMPTY_ROOT = sha256(b"").digest()

NodeReader = Callable[[int, int], bytes]
"""(level, index) -> hash of the complete subtree of 2**level leaves; only asked for subtrees that exist."""

TreeNode = tuple[int, int, bytes]
"""(level, index, hash) of one complete subtree."""


def leaf_hash(data: bytes) -> bytes:
    """The hash of one leaf."""
    return sha256(LEAF_PREFIX + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return sha256(NODE_PREFIX + left + right).digest()


def new_nodes(size: int, leaves: Sequence[bytes], read: NodeReader) -> Iterator[TreeNode]:
    """Every complete subtree that appears when the leaf hashes `leaves` follow the first `size` leaves.

    Reads at most one old node a level, and yields nodes level by level.
    """
    level, first, hashes = 0, size, list(leaves)
    while hashes:
        yield from ((level, first + offset, digest) for offset, digest in enumerate(hashes))
        if first % 2:
            first -= 1
            hashes.insert(0, read(level, first))
        # An odd one out stays behind: its parent is not complete yet.
        pairs = zip(hashes[::2], hashes[1::2], strict=False)
        hashes = [sha256(NODE_PREFIX + left + right).digest() for left, right in pairs]
        level, first = level + 1, first // 2


def root(size: int, read: NodeReader) -> bytes:
    """The root over the first `size` leaves, from at most log2(size) + 1 stored hashes."""
    return _subtree(0, size, read) if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, read: NodeReader) -> list[bytes]:
    """Proof that leaf `index` is under the root over `size` leaves; VerificationFailed out of range."""
    if not 0 <= index < size <= MAX_SIZE:
        raise _refused("There is no such leaf to prove", f"leaf {index} of {size}")
    path, start = [], 0
    while size > 1:
        left = _left_width(size)
        if index - start < left:
            path.append(_subtree(start + left, size - left, read))
            size = left
        else:
            path.append(_subtree(start, left, read))
            start, size = start + left, size - left
    return path[::-1]


def consistency_proof(first: int, second: int, read: NodeReader) -> list[bytes]:
    """Proof that the tree of `second` leaves only added to the tree of `first`; empty from 0 or to itself."""
    if not 0 <= first <= second <= MAX_SIZE:
        raise _refused("These sizes cannot be compared", f"from {first} to {second}")
    if first in (0, second):
        return []
    path, start, size, kept = [], 0, second, first
    while kept != size:
        left = _left_width(size)
        if kept <= left:
            path.append(_subtree(start + left, size - left, read))
            size = left
        else:
            path.append(_subtree(start, left, read))
            start, size, kept = start + left, size - left, kept - left
    # Where the old tree is this very subtree, the verifier already has its hash: it is the old root.
    if start:
        path.append(_subtree(start, size, read))
    return path[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Raise VerificationFailed unless the leaf hash `leaf` is number `index` of `size` under `root`."""
    if not 0 <= index < size <= MAX_SIZE:
        raise _refused("An inclusion proof names an impossible place", f"leaf {index} of {size}")
    inner = (index ^ (size - 1)).bit_length()
    border = (index >> inner).bit_count()
    _check_shape([leaf, root, *proof], len(proof), inner + border)
    if _climb(leaf, proof, inner, index) != root:
        raise _refused("An entry is not in the ledger", "its inclusion proof leads to another root")


def verify_consistency(
    first: int, second: int, proof: Sequence[bytes], first_root: bytes, second_root: bytes
) -> None:
    """Raise VerificationFailed unless the tree of `second` leaves extends the tree of `first`.

    As strict as the reference library: `first` of 0 is refused, because every tree extends the empty one and
    such a check would prove nothing. See `verify_growth` for the witness protocol's reading.
    """
    if not 0 < first <= second <= MAX_SIZE:
        raise _refused("These tree sizes prove nothing", f"from {first} to {second}")
    if first == second:
        _check_shape([], len(proof), 0)
        if first_root != second_root:
            raise _refused("The ledger was rewritten", "two roots were signed for one size")
        return
    shift = (first & -first).bit_length() - 1
    kept = (first - 1) >> shift
    inner = (kept ^ ((second - 1) >> shift)).bit_length()
    border = (kept >> inner).bit_count()
    # A first tree that is one complete subtree is its own starting point; else the proof begins with one.
    given = 0 if first == 1 << shift else 1
    _check_shape([first_root, second_root, *proof], len(proof), given + inner + border)
    seed, path = (proof[0], proof[1:]) if given else (first_root, proof)
    old = seed
    for level, sibling in enumerate(path):
        # The old tree has only the siblings on its left; those right of it are what was added.
        if level >= inner or kept >> level & 1:
            old = node_hash(sibling, old)
    if old != first_root or _climb(seed, path, inner, kept) != second_root:
        raise _refused("The ledger was rewritten", "its consistency proof leads to other roots")


def verify_growth(
    first: int, second: int, proof: Sequence[bytes], first_root: bytes, second_root: bytes
) -> None:
    """As `verify_consistency`, but from 0 an empty proof is enough, as the C2SP witness protocol has it.

    For someone who has seen nothing of the log yet; the first root is not looked at unless both are empty.
    """
    if first == 0 and 0 <= second <= MAX_SIZE and not proof and (second or first_root == second_root):
        return
    verify_consistency(first, second, proof, first_root, second_root)


def _climb(seed: bytes, path: Sequence[bytes], inner: int, sides: int) -> bytes:
    for level, sibling in enumerate(path):
        on_left = level >= inner or sides >> level & 1
        seed = node_hash(sibling, seed) if on_left else node_hash(seed, sibling)
    return seed


def _subtree(start: int, count: int, read: NodeReader) -> bytes:
    # `start` is a multiple of the power of two above `count`, so each part below is a stored subtree.
    digest, end = b"", start + count
    while count:
        width = count & -count
        level = width.bit_length() - 1
        part = read(level, (end - width) >> level)
        digest = node_hash(part, digest) if digest else part
        end, count = end - width, count - width
    return digest


def _left_width(size: int) -> int:
    return 1 << ((size - 1).bit_length() - 1)


def _check_shape(hashes: Sequence[bytes], length: int, expected: int) -> None:
    # Before any hashing, so that a hostile proof costs nothing.
    if length != expected:
        raise _refused("A proof has the wrong length", f"{length} hashes instead of {expected}")
    if any(len(value) != HASH_BYTES for value in hashes):
        raise _refused("A proof holds something that is not a hash", f"a hash has {HASH_BYTES} bytes")


def _refused(what: str, why: str) -> VerificationFailed:
    return VerificationFailed(
        what, why, "fetch it again; if it still fails, keep both copies and tell the ledger's auditor"
    )
