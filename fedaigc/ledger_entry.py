"""The kinds of thing that may be written to the ledger, and their one byte form.

A body holds exactly the fields listed here: what the ledger keeps for ever is decided in this file, and a new
field, perhaps with someone's words in it, cannot slip in by way of a caller. Entries are padded to 256 bytes,
or the next power of two, so that their length says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedaigc.canonical import Json, canonical_bytes, parse_record
from fedaigc.errors import VerificationFailed
from fedaigc.fields import Fields
from fedaigc.fingerprint import DIGEST_BYTES
from fedaigc.identifiers import node_id
from fedaigc.signing import unb64

FORMAT = 1
MIN_ENTRY_BYTES = 256
MAX_ENTRY_BYTES = 32_768
"""The largest padded size below the 65,535 bytes that a tlog-tiles entry can have."""

MAX_MINUTE = 2**32
MAX_TEXT_CHARS = 500
MEDIA = ("text",)
UNSTATED_CASE = "unstated"
"""The case of an `officer_query` for which the officer named none."""

_TAIL = b'","v":1}'


def _check_output(body: Fields) -> None:
    # Devices write this one, so each field is held to its exact form: none can carry words.
    body.only("seq", "commitment", "policy", "rules", "model", "labels", "media")
    body.integer("seq")
    body.integer("policy")
    body.integer("labels", high=2**32)
    body.hexadecimal("rules", 16)
    body.hexadecimal("model", 16)
    unb64(body.text("commitment", 44), DIGEST_BYTES)
    if body.text("media") not in MEDIA:
        raise VerificationFailed("entry.body: the field media is wrong", f"known are {', '.join(MEDIA)}")


def _check_enrolment(body: Fields) -> None:
    body.only("signing_key", "region")
    body.text("signing_key")
    body.text("region")


def _check_revocation(body: Fields) -> None:
    body.only("reason")
    body.text("reason", MAX_TEXT_CHARS)


def _check_update(body: Fields) -> None:
    body.only("round", "parent", "payload", "fingerprint_root", "epsilon", "delta", "accepted", "reason")
    body.integer("parent")
    for name in ("round", "payload", "fingerprint_root", "epsilon", "delta"):
        body.text(name)
    body.text("reason", MAX_TEXT_CHARS)
    if not isinstance(body.record["accepted"], bool):
        raise VerificationFailed("entry.body: the field accepted is wrong", "it must be true or false")


def _check_policy(body: Fields) -> None:
    body.only("version", "parent", "manifest", "round", "updates")
    for name in ("version", "parent", "updates"):
        body.integer(name)
    for name in ("manifest", "round"):
        body.text(name)


def _check_officer_query(body: Fields) -> None:
    body.only("case", "tags", "matches")
    body.text("case")
    body.integer("tags")
    body.integer("matches")


_BODY_CHECKS: Mapping[str, Callable[[Fields], None]] = {
    "output": _check_output,
    "enrolment": _check_enrolment,
    "revocation": _check_revocation,
    "update": _check_update,
    "policy": _check_policy,
    "officer_query": _check_officer_query,
}

KINDS = tuple(_BODY_CHECKS)


@dataclass(frozen=True)
class LedgerEntry:
    """One ledger record. Raises VerificationFailed when made with an unknown kind or a field out of place."""

    kind: str
    """One of KINDS."""
    node: str | None
    """The pseudonym of the node that it is about, if any."""
    minute: int
    """Unix minutes by the writer's clock; order is the index's business."""
    body: Mapping[str, Json]

    def __post_init__(self) -> None:
        if self.kind not in _BODY_CHECKS:
            raise VerificationFailed(
                "An entry is of an unknown kind", f"known kinds are {', '.join(KINDS)}", "update this program"
            )
        if self.node is not None:
            node_id(Fields({"node": self.node}, "entry").text("node"))
        Fields({"minute": self.minute}, "entry").integer("minute", high=MAX_MINUTE)
        _BODY_CHECKS[self.kind](Fields(self.body, "entry.body"))

    def to_bytes(self) -> bytes:
        """Canonical JSON, padded to 256, 512, 1024 ... bytes; VerificationFailed above MAX_ENTRY_BYTES."""
        record = {"v": FORMAT, "kind": self.kind, "node": self.node, "minute": self.minute, "pad": ""}
        bare = canonical_bytes({**record, "body": dict(self.body)})
        size = MIN_ENTRY_BYTES
        while size < len(bare):
            size *= 2
        if size > MAX_ENTRY_BYTES:
            raise VerificationFailed("An entry is too large", f"{len(bare)} bytes", "record less")
        # RFC 8785 sorts the names, so `pad` and `v` are always last.
        return bare.removesuffix(_TAIL) + b"0" * (size - len(bare)) + _TAIL

    @classmethod
    def from_bytes(cls, data: bytes) -> LedgerEntry:
        """Read an entry; raises VerificationFailed unless `data` is exactly what `to_bytes` gives."""
        fields = Fields(parse_record(data, MAX_ENTRY_BYTES), "entry")
        fields.only("v", "kind", "node", "minute", "body", "pad")
        node, body = fields.record["node"], fields.inner("body").record
        entry = cls(fields.text("kind"), node, fields.integer("minute"), body)
        if fields.record["v"] != FORMAT or entry.to_bytes() != data:
            raise VerificationFailed(
                "An entry is not in its one form",
                "its version, order or padding differs",
                "treat it as changed after it was written",
            )
        return entry
