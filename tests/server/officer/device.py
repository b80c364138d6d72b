"""What a device does with one output before it is delivered: fingerprint, commit, seal, tag."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedaigc.canonical import canonical_bytes
from fedaigc.fingerprint import commitment, fingerprint_text, new_salt, query_tag, tag_key
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.sealing import SealingKey
from fedaigc.signing import b64
from fedaigc_server.ledger.output_item import OutputItem

NODE = "n-0123456789abcdef"
# 2026-12-01 05:20 UTC.
MINUTE = 29_935_040
MONTH = "2026-12"


@dataclass
class Device:
    """One node of the tenant that holds `tenant` and `tags`."""

    tenant: SealingKey = field(default_factory=SealingKey.generate)
    tags: bytes = bytes(range(32))
    node: str = NODE

    def output(self, text: str, seq: int, month: str = MONTH, **lies: Any) -> OutputItem:
        """A delivery of `text`; `lies` replace fields of the entry's body after the commitment was made."""
        stated = {"seq": seq, "policy": 3, "rules": "ab" * 8, "model": "cd" * 8, "labels": 0}
        record = {
            **stated,
            "request": f"chatcmpl-{seq:024x}",
            "node": self.node,
            "minute": MINUTE,
            "finish": "stop",
            "tokens_bucket": 64,
        }
        fingerprint, salt = fingerprint_text(text), new_salt()
        value = b64(commitment(salt, fingerprint, record))
        body = {**stated, "commitment": value, "media": "text", **lies}
        opening = {
            "salt": b64(salt),
            "raw": b64(fingerprint.raw),
            "canonical": b64(fingerprint.canonical),
            "record": record,
        }
        key = tag_key(self.tags, month)
        return OutputItem(
            seq=seq,
            entry=LedgerEntry("output", self.node, MINUTE, body).to_bytes(),
            tags=tuple(query_tag(key, digest) for digest in (fingerprint.raw, fingerprint.canonical)),
            month=month,
            opening=self.tenant.public.seal("opening", canonical_bytes(opening)),
        )
