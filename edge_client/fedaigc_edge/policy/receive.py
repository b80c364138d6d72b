"""Receive a policy: verify everything about it, keep it on disk, then swap it in. What does not check
changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fedaigc.errors import FedaigcError, ModelError, VerificationFailed
from fedaigc.identifiers import PolicyVersion
from fedaigc.manifest import PolicyManifest
from fedaigc.signing import PublicKey
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.policy.accepted import AcceptedPolicies, AcceptedPolicy, Newest, PolicyBlobs, verified
from fedaigc_edge.policy.adapter_export import check_fits, export_adapter
from fedaigc_edge.policy.hot_swap import ActivePolicy

LATEST_PATH = "/v1/policies/latest"
MAX_MISSED_VERSIONS = 10_000
"""A device that missed more versions than this joins anew instead of walking the chain."""


class PolicySource(Protocol):
    """The enrolled server, as far as policies go."""

    async def get(self, path: str) -> bytes | None:
        """The bytes behind a path, None for 204. Raises Unavailable, NotAuthorised."""
        ...


@dataclass(frozen=True)
class PolicyChange:
    """A policy that came into force, and how long the swap took until new requests used it."""

    version: PolicyVersion
    milliseconds: float


class PolicyReceiver:
    """Keeps one device on the newest policy that its server signed.

    Args:
        folder: the device's policy folder.
        release_key: who may release policies, known from enrolment.
        model: the model being served; policies for another are refused.
        active: where a policy is put in force.
    """

    def __init__(
        self, folder: Path, release_key: PublicKey, model: ModelFolder, active: ActivePolicy
    ) -> None:
        self._kept = AcceptedPolicies(folder, release_key)
        self._release_key = release_key
        self._model = model
        self._active = active
        self._checking = asyncio.Lock()
        self.accepted: AcceptedPolicy | None = None
        """The policy in force with its adapter and head, to train from; None for the base model."""
        self.problem: FedaigcError | None = None
        """Why the newest policy is not in force; None when it is."""

    def restore(self) -> PolicyVersion:
        """At start: put the last accepted policy in force again, verified anew; returns the version in force.

        When its files are damaged, its parent or the base model serves, `problem` says why, and the next
        check fetches it again; an older policy than the accepted one is never taken from the server.
        Raises VerificationFailed when even the record of what was accepted is damaged.
        """
        newest = self._kept.newest()
        for version in (newest.version, newest.version - 1):
            if version < 1:
                break
            try:
                policy = self._kept.read(PolicyVersion(version))
                if version == newest.version and policy.digest != newest.manifest:
                    raise VerificationFailed(
                        "The kept policy is not the accepted one", "", "it is fetched again"
                    )
                self._put_in_force(policy)
            except (VerificationFailed, ModelError) as error:
                self.problem = self.problem or error
                continue
            return policy.manifest.version
        return self._active.current.version

    async def check_for_policy(self, server: PolicySource) -> PolicyChange | None:
        """Ask for the newest policy and put it in force; None when it is in force already.

        Raises VerificationFailed for a downgrade, a replay, a wrong signature, hash, base model or chain, and
        what `server` raises. The policy in force then stays, and `problem` holds the refusal.
        """
        async with self._checking:
            try:
                change = await self._check(server)
            except (VerificationFailed, ModelError) as error:
                self.problem = error
                raise
            self.problem = None
            return change

    async def _check(self, server: PolicySource) -> PolicyChange | None:
        newest = self._kept.newest()
        data = await server.get(LATEST_PATH)
        if data is None:
            if newest.version:
                raise _refused(
                    f"The server offers no policy, but version {newest.version} was accepted",
                    "it may have lost its data or been replaced",
                )
            return None
        manifest = PolicyManifest.open(data, self._release_key)
        _require_no_downgrade(manifest, PolicyManifest.digest(data), newest)
        if manifest.version == newest.version == self._active.current.version:
            return None
        if manifest.base_model != self._model.base_model:
            raise VerificationFailed(
                f"Policy {manifest.version} is for another base model",
                f"it names {manifest.base_model[:16]}, this device serves {self._model.base_model[:16]}",
                "serve the model that the federation uses: fedaigc-edge model list",
            )
        await self._require_chain(server, manifest, newest)
        blobs = PolicyBlobs(data, await _blob(server, manifest.adapter), await _blob(server, manifest.head))
        return await asyncio.to_thread(self._take, blobs)

    async def _require_chain(self, server: PolicySource, manifest: PolicyManifest, newest: Newest) -> None:
        """Walk from `manifest` through its parents down to what this device accepted last."""
        if manifest.version - newest.version > MAX_MISSED_VERSIONS:
            raise _refused(
                f"Policy {manifest.version} is more than {MAX_MISSED_VERSIONS} versions ahead",
                "it cannot be checked",
            )
        child = manifest
        while child.parent > newest.version:
            data = await server.get(f"/v1/policies/{child.parent}")
            if data is None or PolicyManifest.digest(data) != child.parent_manifest:
                raise _broken_chain(child)
            parent = PolicyManifest.open(data, self._release_key)
            if parent.version != child.parent:
                raise _broken_chain(child)
            child = parent
        if child.version > newest.version and child.parent_manifest != newest.manifest:
            raise _broken_chain(child)

    def _take(self, blobs: PolicyBlobs) -> PolicyChange:
        # Everything is checked before the first byte is written.
        policy = verified(blobs, self._release_key, Path())
        check_fits(policy.adapter, self._model)
        self._require_head_fits(policy)
        kept = self._kept.keep(blobs)
        export_adapter(kept.adapter, self._model, kept.served)
        self._kept.accept(kept)
        return self._swap(kept)

    def _put_in_force(self, policy: AcceptedPolicy) -> None:
        check_fits(policy.adapter, self._model)
        # Written anew from the verified adapter: the file on disk is a copy that nobody signed.
        export_adapter(policy.adapter, self._model, policy.served)
        self._swap(policy)

    def _swap(self, policy: AcceptedPolicy) -> PolicyChange:
        milliseconds = self._active.swap(policy.manifest.version, policy.served, policy.head)
        self.accepted = policy
        return PolicyChange(policy.manifest.version, milliseconds)

    def _require_head_fits(self, policy: AcceptedPolicy) -> None:
        if (policy.head.dim, policy.head.layer) != (self._model.head_dim, self._model.head_layer):
            raise VerificationFailed(
                f"The reward head of policy {policy.manifest.version} does not fit this model",
                f"it reads {policy.head.dim} features of layer {policy.head.layer}",
                "ask the operator",
            )


async def _blob(server: PolicySource, digest: str) -> bytes:
    data = await server.get(f"/v1/blobs/{digest}")
    if data is None:
        raise _refused("A part of the policy is missing at the server", f"it has no blob {digest[:16]}")
    return data


def _require_no_downgrade(manifest: PolicyManifest, digest: str, newest: Newest) -> None:
    if manifest.version < newest.version:
        raise _refused(
            f"The server offers policy {manifest.version}, but version {newest.version} was accepted",
            "an older policy is never taken: it may be replayed",
        )
    if manifest.version == newest.version and digest != newest.manifest:
        raise _refused(
            f"The server offers another policy {manifest.version} than the one accepted",
            "two manifests were signed for one version",
        )


def _broken_chain(child: PolicyManifest) -> VerificationFailed:
    return _refused(
        f"Policy {child.version} does not continue what this device accepted",
        f"its parent, version {child.parent}, is another one or missing",
    )


def _refused(what: str, why: str) -> VerificationFailed:
    return VerificationFailed(what, why, "the policy in force stays; tell the operator")
