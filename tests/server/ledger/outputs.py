"""Entries and deliveries for the ledger's tests."""

from __future__ import annotations

from typing import Any

from blake3 import blake3

from fedaigc.ledger_entry import LedgerEntry
from fedaigc.signing import b64
from fedaigc_server.ledger.output_item import OutputItem

NODE = "n-0123456789abcdef"
OTHER_NODE = "n-fedcba9876543210"
MINUTE = 29_900_000


def output_entry(seq: int, node: str = NODE, **changes: Any) -> bytes:
    body = {
        "seq": seq,
        "commitment": b64(blake3(f"{node} {seq}".encode()).digest()),
        "policy": 1,
        "rules": "0" * 16,
        "model": "f" * 16,
        "labels": 0,
        "media": "text",
    }
    return LedgerEntry("output", node, MINUTE, {**body, **changes}).to_bytes()


def tag_of(seq: int, node: str = NODE) -> bytes:
    return blake3(f"tag {node} {seq}".encode()).digest()[:16]


def item(seq: int, node: str = NODE, tags: tuple[bytes, ...] | None = None, **changes: Any) -> OutputItem:
    mine = (tag_of(seq, node),) if tags is None else tags
    return OutputItem(seq, output_entry(seq, node, **changes), mine, "2026-12", b"sealed %d" % seq)


def plain_entries(count: int, first: int = 0) -> list[bytes]:
    return [
        LedgerEntry("revocation", None, MINUTE, {"reason": f"number {number}"}).to_bytes()
        for number in range(first, first + count)
    ]
