"""Turn one output into what is kept and what leaves: fingerprints, commitment, entry, sealed opening."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from fedaigc.canonical import Json, canonical_bytes
from fedaigc.fingerprint import Fingerprint, commitment, fingerprint_text, month_of
from fedaigc.identifiers import NodeId, PolicyVersion, RequestId
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.sealing import SealingPublicKey
from fedaigc.signing import b64

OPENING_PURPOSE = "opening"
SHORT_HEX = 16
"""How much of a version's or a model's hash stands in an entry."""


@dataclass(frozen=True)
class Output:
    """What one generation gave its caller; `repr` never shows the text."""

    request: RequestId
    text: str = field(repr=False)
    policy: PolicyVersion
    rules: str
    """The rule set's version, hexadecimal."""
    model: str
    """The base model's BLAKE3, hexadecimal."""
    finish: str
    """stop, length, cancelled or failed."""
    tokens: int
    labels: int = 0
    """Label flags; 0 means that the text carries no label."""


@dataclass(frozen=True)
class SealedOutput:
    """An output with its number and its proof. Everything but `entry` and `opening` stays on the device."""

    output: Output
    seq: int
    minute: int
    """Unix minutes."""
    salt: bytes = field(repr=False)
    fingerprint: Fingerprint
    record: dict[str, Json]
    commitment: bytes
    entry: bytes = field(repr=False)
    """The ledger entry, padded; says nothing about the text without the salt."""
    opening: bytes = field(repr=False)
    """Salt, fingerprints and record, sealed to the tenant's key."""
    sealing_ns: int = field(default=0, compare=False)
    """How long all of this took to compute, nanoseconds."""


def seal_output(
    output: Output, node: NodeId, seq: int, minute: int, salt: bytes, tenant: SealingPublicKey
) -> SealedOutput:
    """Fingerprint, commit, describe and seal one output; raises VerificationFailed on a malformed fact."""
    started = time.perf_counter_ns()
    fingerprint = fingerprint_text(output.text)
    rules, model = output.rules[:SHORT_HEX], output.model[:SHORT_HEX]
    record: dict[str, Json] = {
        "request": output.request,
        "node": node,
        "seq": seq,
        "minute": minute,
        "policy": int(output.policy),
        "rules": rules,
        "model": model,
        "finish": output.finish,
        "labels": output.labels,
        "tokens_bucket": tokens_bucket(output.tokens),
    }
    value = commitment(salt, fingerprint, record)
    body: dict[str, Json] = {"seq": seq, "commitment": b64(value), "media": "text"}
    body |= {"policy": int(output.policy), "rules": rules, "model": model, "labels": output.labels}
    opening = canonical_bytes(
        {
            "salt": b64(salt),
            "raw": b64(fingerprint.raw),
            "canonical": b64(fingerprint.canonical),
            "record": record,
        }
    )
    entry = LedgerEntry("output", node, minute, body).to_bytes()
    sealed_opening = tenant.seal(OPENING_PURPOSE, opening)
    return SealedOutput(
        output=output,
        seq=seq,
        minute=minute,
        salt=salt,
        fingerprint=fingerprint,
        record=record,
        commitment=value,
        entry=entry,
        opening=sealed_opening,
        sealing_ns=time.perf_counter_ns() - started,
    )


def tokens_bucket(tokens: int) -> int:
    """The next power of two, 0 for none: a length is recorded only this exactly."""
    return 1 << (tokens - 1).bit_length() if tokens > 0 else 0


def month_of_minute(minute: int) -> str:
    """The month, `YYYY-MM` in UTC, whose key makes the tags of an output of this Unix minute."""
    return month_of(datetime.fromtimestamp(minute * 60, UTC))
