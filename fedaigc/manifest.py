"""The signed description of one policy version and its parent: all that a device trusts about a policy."""

from __future__ import annotations

from dataclasses import dataclass

from fedaigc.adapter import checked_base_model
from fedaigc.errors import VerificationFailed
from fedaigc.fields import fields_of
from fedaigc.fingerprint import blob_digest
from fedaigc.identifiers import PolicyVersion, RoundId, round_id
from fedaigc.signing import PublicKey, SigningKey
from fedaigc.wire import open_message, seal_message

PURPOSE = "policy-manifest"
MAX_MANIFEST_BYTES = 64 << 10


@dataclass(frozen=True)
class PolicyManifest:
    """One numbered policy.

    Args:
        version: 1 or more; 0, the base model, has no manifest.
        parent: the version it was trained from, `version - 1`.
        parent_manifest: BLAKE3 of the parent's signed bytes, hexadecimal; empty for version 1.
        base_model: BLAKE3 of the model it belongs to.
        adapter, head: BLAKE3 of the two blobs.
        round: the round that made it.
        updates: how many nodes' updates were averaged.
        epsilon_max: the largest account that any of those nodes reported.
        minute: Unix minutes of the release.
    """

    version: PolicyVersion
    parent: PolicyVersion
    parent_manifest: str
    base_model: str
    adapter: str
    head: str
    round: RoundId
    updates: int
    epsilon_max: float
    minute: int

    def __post_init__(self) -> None:
        round_id(self.round)
        checked_base_model(self.base_model)
        fields = fields_of(dict(vars(self)), "policy manifest")
        fields.integer("version", 1)
        fields.integer("parent")
        fields.hexadecimal("parent_manifest", empty=True)
        fields.hexadecimal("adapter")
        fields.hexadecimal("head")
        fields.integer("updates", 1)
        fields.number("epsilon_max", 0.0, 1e6)
        fields.integer("minute")
        if self.parent != self.version - 1 or bool(self.parent_manifest) != (self.version > 1):
            raise VerificationFailed(
                "A policy manifest breaks the chain",
                f"version {self.version} names parent {self.parent}",
                "ask the operator",
            )

    def signed(self, release_key: SigningKey) -> bytes:
        """The manifest as a signed message; equal manifests give equal bytes."""
        return seal_message(PURPOSE, {"v": 1, **vars(self)}, release_key)

    @classmethod
    def open(cls, data: bytes, release_public: PublicKey) -> PolicyManifest:
        """The manifest in a message signed with the release key; raises VerificationFailed."""
        fields, _ = open_message(PURPOSE, data, release_public, MAX_MANIFEST_BYTES)
        fields.only("v", *cls.__dataclass_fields__)
        fields.integer("v", 1, 1)
        return cls(
            version=PolicyVersion(fields.integer("version")),
            parent=PolicyVersion(fields.integer("parent")),
            parent_manifest=fields.hexadecimal("parent_manifest", empty=True),
            base_model=fields.hexadecimal("base_model"),
            adapter=fields.hexadecimal("adapter"),
            head=fields.hexadecimal("head"),
            round=round_id(fields.text("round")),
            updates=fields.integer("updates"),
            epsilon_max=fields.number("epsilon_max"),
            minute=fields.integer("minute"),
        )

    @staticmethod
    def digest(data: bytes) -> str:
        """BLAKE3 of a signed manifest's bytes, hexadecimal: what the next version names as its parent."""
        return blob_digest(data)
