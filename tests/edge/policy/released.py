"""A release key and a server of signed policies for tests, which can be told to lie."""

from __future__ import annotations

import dataclasses

import numpy as np

from fedaigc.adapter import Adapter
from fedaigc.errors import Unavailable
from fedaigc.fingerprint import blob_digest
from fedaigc.identifiers import PolicyVersion, round_id
from fedaigc.manifest import PolicyManifest
from fedaigc.reward_head import RewardHead
from fedaigc.signing import SigningKey
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.policy.accepted import PolicyBlobs
from tests.edge.policy.test_adapter_export import random_adapter


class Releases:
    """Signs policy after policy for a model and answers like the server; `offered` is what `latest` gives."""

    def __init__(self, model: ModelFolder, key: SigningKey | None = None) -> None:
        self.model = model
        self.key = key or SigningKey.generate()
        self.manifests: dict[int, bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.offered: int | None = None
        self.asked: list[str] = []
        self.down = False

    def release(
        self, seed: int = 0, base_model: str | None = None, adapter: Adapter | None = None
    ) -> PolicyManifest:
        """Sign the next version and offer it."""
        number = len(self.manifests) + 1
        base = base_model or self.model.base_model
        weights = np.full(self.model.head_dim, 0.5, np.float32)
        head = RewardHead(weights, self.model.head_layer, base)
        adapter = adapter or random_adapter(
            dataclasses.replace(self.model, base_model=base), 0.1, seed or number
        )
        manifest = PolicyManifest(
            version=PolicyVersion(number),
            parent=PolicyVersion(number - 1),
            parent_manifest=PolicyManifest.digest(self.manifests[number - 1]) if number > 1 else "",
            base_model=base,
            adapter=self._put(adapter.to_bytes()),
            head=self._put(head.to_bytes()),
            round=round_id("r-0123456789abcdef"),
            updates=2,
            epsilon_max=0.5,
            minute=29_000_000,
        )
        self.offer(manifest)
        return manifest

    def offer(self, manifest: PolicyManifest, key: SigningKey | None = None) -> bytes:
        """Sign `manifest` and offer it as the latest."""
        self.manifests[manifest.version] = manifest.signed(key or self.key)
        self.offered = manifest.version
        return self.manifests[manifest.version]

    def policy_blobs(self, number: int) -> PolicyBlobs:
        """Version `number` as bytes."""
        manifest = PolicyManifest.open(self.manifests[number], self.key.public)
        return PolicyBlobs(self.manifests[number], self.blobs[manifest.adapter], self.blobs[manifest.head])

    async def get(self, path: str) -> bytes | None:
        """What the server would answer; None for 204 and 404."""
        self.asked.append(path)
        if self.down:
            raise Unavailable("The server cannot be reached")
        kind, name = path.removeprefix("/v1/").split("/")
        if kind == "blobs":
            return self.blobs.get(name)
        number = self.offered if name == "latest" else int(name)
        return self.manifests.get(number) if number is not None else None

    def _put(self, data: bytes) -> str:
        self.blobs[blob_digest(data)] = data
        return blob_digest(data)
