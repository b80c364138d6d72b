"""A node's signed update: noised deltas, their cost, what was learned from, and proof that weights moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedaigc.adapter import MAX_FEATURES, Adapter, AdapterShape, checked_base_model
from fedaigc.arrays import FloatArray, arrays_from_bytes, arrays_to_bytes
from fedaigc.errors import VerificationFailed
from fedaigc.fields import fields_of
from fedaigc.fingerprint import blob_digest
from fedaigc.identifiers import NodeId, PolicyVersion, RoundId, node_id, round_id
from fedaigc.privacy_account import Mechanism
from fedaigc.signing import PublicKey, SigningKey, b64, unb64
from fedaigc.wire import MAX_MESSAGE_BYTES, open_message, seal_message

PURPOSE = "node-update"
MAX_UPDATE_BYTES = MAX_MESSAGE_BYTES
MAX_MECHANISMS = 64
ROOT_BYTES = 32
_HEAD = "head"


@dataclass(frozen=True, eq=False)
class NodeUpdate:
    """What one node returns for one round; nothing in it but noised sums and public numbers.

    Args:
        adapter_delta: the change of B from the parent's adapter, per slot (out_features, rank).
        head_delta: the change of the reward head from the parent's, (head_dim,) float32.
        mechanisms: what this round ran on the device's pairs, in the plan's order.
        epsilon_spent: the device's whole account after this round, at `delta`.
        fingerprint_root: RFC 6962 root over the commitments of the pairs learned from, 32 bytes.
        moved: L2 norm of `adapter_delta`, above 0.
    """

    round: RoundId
    node: NodeId
    parent: PolicyVersion
    base_model: str
    adapter_delta: Adapter
    head_delta: FloatArray
    mechanisms: tuple[Mechanism, ...]
    epsilon_spent: float
    delta: float
    fingerprint_root: bytes
    moved: float

    def __post_init__(self) -> None:
        round_id(self.round)
        node_id(self.node)
        checked_base_model(self.base_model)
        fields = fields_of(dict(vars(self)), "update")
        fields.integer("parent")
        fields.number("epsilon_spent", 0.0, 1e6)
        fields.number("delta", 0.0, 1.0)
        fields.number("moved", 0.0, 1e9)
        if not 1 <= len(self.mechanisms) <= MAX_MECHANISMS:
            raise _misfit(f"1 to {MAX_MECHANISMS} mechanisms are needed")
        if len(self.fingerprint_root) != ROOT_BYTES:
            raise _misfit("its fingerprint root is not 32 bytes")
        if self.adapter_delta.base_model != self.base_model:
            raise _misfit("its adapter is for another base model")
        head = np.array(self.head_delta, dtype=np.float32)
        if head.ndim != 1 or not 1 <= head.size <= MAX_FEATURES or not np.isfinite(head).all():
            raise _misfit("its reward head is not a finite vector")
        head.setflags(write=False)
        object.__setattr__(self, "head_delta", head)

    def signed(self, key: SigningKey) -> bytes:
        """The update as a message signed by the node. Raises VerificationFailed above 64 MiB."""
        record = {
            "v": 1,
            "round": self.round,
            "node": self.node,
            "parent": self.parent,
            "base_model": self.base_model,
            "shape": self.adapter_delta.shape.to_json(),
            "mechanisms": [mechanism.to_json() for mechanism in self.mechanisms],
            "epsilon_spent": self.epsilon_spent,
            "delta": self.delta,
            "fingerprint_root": b64(self.fingerprint_root),
            "moved": self.moved,
        }
        arrays = {**self.adapter_delta.b, _HEAD: self.head_delta}
        payload = arrays_to_bytes(arrays, {"v": 1, "kind": "update"})
        return seal_message(PURPOSE, record, key, payload)

    @classmethod
    def open(cls, data: bytes, public: PublicKey) -> NodeUpdate:
        """The update in a message signed by the node whose key is `public`; raises VerificationFailed."""
        fields, payload = open_message(PURPOSE, data, public, MAX_UPDATE_BYTES)
        fields.only(
            *("v", "round", "node", "parent", "base_model", "shape", "mechanisms"),
            *("epsilon_spent", "delta", "fingerprint_root", "moved"),
        )
        fields.integer("v", 1, 1)
        base_model = fields.hexadecimal("base_model")
        shape = AdapterShape.from_json(fields.record["shape"])
        arrays, _ = arrays_from_bytes(payload, MAX_UPDATE_BYTES)
        head = arrays.pop(_HEAD, None)
        if head is None:
            raise _misfit("its reward head is missing")
        return cls(
            round=round_id(fields.text("round")),
            node=node_id(fields.text("node")),
            parent=PolicyVersion(fields.integer("parent")),
            base_model=base_model,
            adapter_delta=Adapter(shape, base_model, arrays),
            head_delta=head,
            mechanisms=tuple(
                Mechanism.from_json(item) for item in fields.listed("mechanisms", MAX_MECHANISMS)
            ),
            epsilon_spent=fields.number("epsilon_spent"),
            delta=fields.number("delta"),
            fingerprint_root=unb64(fields.text("fingerprint_root"), ROOT_BYTES),
            moved=fields.number("moved"),
        )

    @staticmethod
    def digest(data: bytes) -> str:
        """BLAKE3 of a signed update's bytes, hexadecimal: its name in the ledger."""
        return blob_digest(data)


def _misfit(why: str) -> VerificationFailed:
    return VerificationFailed("An update does not fit", why, "send the update of this round again")
