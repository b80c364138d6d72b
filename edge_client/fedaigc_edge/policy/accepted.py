"""The policies that this device accepted, on disk: whole, verified again when read, never older than the
newest.

<policy>/<version>/    manifest (signed), adapter.safetensors, head.safetensors, policy.onnx_adapter
<policy>/current       the newest accepted version and its manifest's hash, as JSON
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from fedaigc.adapter import Adapter
from fedaigc.arrays import MAX_ARRAY_BYTES
from fedaigc.canonical import canonical_bytes, parse_canonical
from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.fields import Fields
from fedaigc.files import private_folder, sync_folder, write_atomic
from fedaigc.fingerprint import blob_digest
from fedaigc.identifiers import PolicyVersion
from fedaigc.manifest import MAX_MANIFEST_BYTES, PolicyManifest
from fedaigc.reward_head import RewardHead
from fedaigc.signing import PublicKey

CURRENT_FILE = "current"
MANIFEST_FILE = "manifest"
ADAPTER_FILE = "adapter.safetensors"
HEAD_FILE = "head.safetensors"
SERVED_FILE = "policy.onnx_adapter"
KEPT_VERSIONS = 3
"""The current version and as many before it as a device keeps resident; the parent is also what it falls back
to when the current files are damaged."""


@dataclass(frozen=True)
class Newest:
    """The newest version this device ever accepted and the BLAKE3 of its signed manifest; 0 and "" at
    first."""

    version: PolicyVersion
    manifest: str


NOTHING_YET = Newest(PolicyVersion(0), "")


@dataclass(frozen=True)
class PolicyBlobs:
    """One policy as it came: signed manifest, adapter and reward head, in bytes."""

    manifest: bytes
    adapter: bytes
    head: bytes


@dataclass(frozen=True)
class AcceptedPolicy:
    """One verified policy: what to serve (`served`, to be exported to that path) and what to train from."""

    manifest: PolicyManifest
    digest: str
    adapter: Adapter
    head: RewardHead
    served: Path


def verified(blobs: PolicyBlobs, release_key: PublicKey, served: Path) -> AcceptedPolicy:
    """Check signature, hashes, shapes and base model of `blobs`; raises VerificationFailed."""
    manifest = PolicyManifest.open(blobs.manifest, release_key)
    for name, data, digest in (
        ("adapter", blobs.adapter, manifest.adapter),
        ("head", blobs.head, manifest.head),
    ):
        if blob_digest(data) != digest:
            raise VerificationFailed(
                f"The {name} of policy {manifest.version} is not the one that was signed",
                "its BLAKE3 differs",
                "nothing was changed here; the next check fetches it again",
            )
    adapter, head = Adapter.from_bytes(blobs.adapter), RewardHead.from_bytes(blobs.head)
    if {adapter.base_model, head.base_model} != {manifest.base_model}:
        raise VerificationFailed(
            f"The parts of policy {manifest.version} are for different base models", "", "ask the operator"
        )
    return AcceptedPolicy(manifest, PolicyManifest.digest(blobs.manifest), adapter, head, served)


class AcceptedPolicies:
    """The folder; only one task may write at a time. Every method raises StorageError when the disk fails."""

    def __init__(self, folder: Path, release_key: PublicKey) -> None:
        self._folder = private_folder(folder)
        self._release_key = release_key

    def newest(self) -> Newest:
        """The newest accepted version; raises VerificationFailed when the record of it is damaged."""
        path = self._folder / CURRENT_FILE
        if not path.exists():
            return NOTHING_YET
        try:
            fields = Fields(parse_canonical(_read(path, MAX_MANIFEST_BYTES)), CURRENT_FILE)
            version = PolicyVersion(fields.integer("version", 1))
            return Newest(version, fields.hexadecimal("manifest"))
        except VerificationFailed as error:
            raise VerificationFailed(
                f"{path} is damaged",
                error.what,
                f"delete {self._folder} and start again: the policy is fetched anew",
            ) from error

    def read(self, version: PolicyVersion) -> AcceptedPolicy:
        """Read a kept version and verify all of it again; raises VerificationFailed."""
        folder = self._folder / str(version)
        blobs = PolicyBlobs(
            _read(folder / MANIFEST_FILE, MAX_MANIFEST_BYTES),
            _read(folder / ADAPTER_FILE, MAX_ARRAY_BYTES),
            _read(folder / HEAD_FILE, MAX_ARRAY_BYTES),
        )
        policy = verified(blobs, self._release_key, folder / SERVED_FILE)
        if policy.manifest.version != version:
            raise VerificationFailed(f"The folder of policy {version} holds another version", "", "delete it")
        return policy

    def keep(self, blobs: PolicyBlobs) -> AcceptedPolicy:
        """Write a verified policy's folder whole or not at all; `accept` makes it count."""
        manifest = PolicyManifest.open(blobs.manifest, self._release_key)
        folder = self._folder / str(manifest.version)
        part = self._folder / f".{manifest.version}.{os.getpid()}.part"
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            write_atomic(part / MANIFEST_FILE, blobs.manifest)
            write_atomic(part / ADAPTER_FILE, blobs.adapter)
            write_atomic(part / HEAD_FILE, blobs.head)
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
            sync_folder(self._folder)
        except OSError as error:
            raise StorageError(
                f"Cannot write {folder}",
                error.strerror or "",
                "free some space; the old policy stays in force",
            ) from error
        return self.read(manifest.version)

    def accept(self, policy: AcceptedPolicy) -> None:
        """Make `policy` the newest: from now on nothing older is accepted, not even after a crash."""
        record = {"version": policy.manifest.version, "manifest": policy.digest}
        write_atomic(self._folder / CURRENT_FILE, canonical_bytes(record))
        for path in self._folder.iterdir():
            old = path.name.isdecimal() and int(path.name) <= policy.manifest.version - KEPT_VERSIONS
            if old or path.name.endswith(".part"):
                shutil.rmtree(path, ignore_errors=True)


def _read(path: Path, limit: int) -> bytes:
    try:
        if path.stat().st_size > limit:
            raise VerificationFailed(f"{path.name} is larger than any policy's", "", "it is fetched again")
        return path.read_bytes()
    except FileNotFoundError:
        raise VerificationFailed(
            f"{path.name} of a kept policy is missing", "its folder is damaged", "it is fetched again"
        ) from None
    except OSError as error:
        raise StorageError(f"Cannot read {path}", error.strerror or "", "check the disk") from error
