"""A ledger in memory that answers batches as the server does, and can be told to misbehave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedaigc.canonical import Json
from fedaigc.errors import FedaigcError, IdentityError
from fedaigc.identifiers import NodeId
from fedaigc.ledger_tree import inclusion_proof, leaf_hash, new_nodes, root
from fedaigc.receipt import Receipt
from fedaigc.sealing import SealingKey
from fedaigc.signed_note import LogSigner
from fedaigc.signing import SigningKey, unb64
from fedaigc_edge.evidence.output import Output

NODE = NodeId("n-0123456789abcdef")
TENANT = SealingKey.generate()
MONTH_KEY = bytes(range(32))


def output(number: int, text: str | None = None) -> Output:
    words = f"answer {number}" if text is None else text
    return Output(f"chatcmpl-{number:024x}", words, 3, "ab" * 32, "cd" * 32, "stop", 7)  # type: ignore[arg-type]


class Tree:
    """Leaves and every complete subtree's hash."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self._nodes: dict[tuple[int, int], bytes] = {}

    def read(self, level: int, index: int) -> bytes:
        return self._nodes[(level, index)]

    def append(self, entry: bytes) -> int:
        for level, index, digest in new_nodes(len(self.entries), [leaf_hash(entry)], self.read):
            self._nodes[(level, index)] = digest
        self.entries.append(entry)
        return len(self.entries) - 1


class SmallLedger:
    """What a ServerConnection is to delivery."""

    def __init__(self) -> None:
        self.signer = LogSigner("ledger.example/log", SigningKey.generate())
        self.tree = Tree()
        self.known: dict[int, int] = {}
        self.batches: list[list[dict[str, Any]]] = []
        self.months_asked: list[str] = []
        self.failures: list[FedaigcError] = []
        self.answer_with_index_shifted_by = 0
        self.answer_for: dict[int, int] = {}
        self.prove_with: SmallLedger | None = None

    async def post(self, path: str, body: dict[str, Json]) -> dict[str, Any]:
        if self.failures:
            raise self.failures.pop(0)
        if path == "/v1/node/tag-keys":
            self.months_asked += body["months"]
            return {"tag_keys": dict.fromkeys(body["months"], "sealed")}
        items = body["items"]
        self.batches.append(items)
        for item in items:
            if item["seq"] not in self.known:
                self.known[item["seq"]] = self.tree.append(unb64(item["entry"]))
        return {"receipts": [self._receipt(item["seq"]) for item in items]}

    def _receipt(self, seq: int) -> dict[str, Any]:
        index = self.known[self.answer_for.get(seq, seq)]
        text = (self.prove_with or self).receipt(index)
        return {"seq": seq, "index": index + self.answer_with_index_shifted_by, "receipt": text}

    def receipt(self, index: int) -> str:
        size = len(self.tree.entries)
        note = self.signer.sign_checkpoint(size, root(size, self.tree.read))
        proof = tuple(inclusion_proof(index, size, self.tree.read))
        return Receipt(index, proof, note, self.tree.entries[index]).to_text()


class Keys:
    """Month keys: those of `months` are here, others come when they are kept."""

    def __init__(self, *months: str) -> None:
        self.months = set(months)

    def key(self, month: str) -> bytes:
        if month not in self.months:
            raise IdentityError(f"The tag key of {month} is not on this device")
        return MONTH_KEY

    def keep(self, sealed: Mapping[str, Json]) -> None:
        self.months |= set(sealed)
