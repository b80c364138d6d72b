"""Bind an update to what was learned from, without saying what that was.

The leaves of an RFC 6962 tree are the commitments of recorded answers. A pair that this device never recorded
(both answers came from the caller) gets a leaf under a salt that is thrown away. A last, random leaf hides
the rest: who knows every commitment in the ledger still cannot try out which of them were used.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from blake3 import blake3

from fedaigc.ledger_tree import leaf_hash, new_nodes, root
from fedaigc.preference import Preference

LEAF_BYTES = 32


@dataclass(frozen=True)
class FingerprintRoot:
    """The root, and its leaves in order, 32 bytes each; the leaves stay on the device."""

    root: bytes
    leaves: tuple[bytes, ...]


def fingerprint_root(
    pairs: Sequence[Preference], random_bytes: Callable[[int], bytes] = secrets.token_bytes
) -> FingerprintRoot:
    """The root over the commitments of `pairs`, each recorded answer once."""
    leaves: dict[bytes, None] = {}
    for pair in pairs:
        for leaf in pair.commitments or (_unrecorded(pair, random_bytes(LEAF_BYTES)),):
            leaves[leaf] = None
    leaves[random_bytes(LEAF_BYTES)] = None
    nodes: dict[tuple[int, int], bytes] = {}
    hashes = [leaf_hash(leaf) for leaf in leaves]
    for level, index, digest in new_nodes(0, hashes, lambda level, index: nodes[level, index]):
        nodes[level, index] = digest
    return FingerprintRoot(root(len(leaves), lambda level, index: nodes[level, index]), tuple(leaves))


def _unrecorded(pair: Preference, salt: bytes) -> bytes:
    content = [[turn.role, turn.content] for turn in pair.prompt], pair.chosen, pair.rejected
    return blake3(json.dumps(content).encode("ascii"), key=salt).digest()
