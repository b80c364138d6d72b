"""The chain of policy versions: each signed manifest names its parent's, and a round makes at most one."""

from __future__ import annotations

from pathlib import Path

from fedaigc.adapter import Adapter
from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.identifiers import PolicyVersion, RoundId
from fedaigc.manifest import PolicyManifest
from fedaigc.reward_head import RewardHead
from fedaigc.signing import SigningKey
from fedaigc_server.blobs import Blobs
from fedaigc_server.database import Database

SCHEMA = """
CREATE TABLE IF NOT EXISTS policies (
    version INTEGER PRIMARY KEY, round TEXT NOT NULL UNIQUE, manifest BLOB NOT NULL
) STRICT;
"""


class PolicyVersions:
    """The versions in a table of the server's database, their arrays in `blobs`; safe from several threads.

    Opening walks the chain. Raises VerificationFailed when a manifest is not ours or its parent is another.
    """

    def __init__(self, path: Path, blobs: Blobs, release_key: SigningKey) -> None:
        self._database = Database(path, SCHEMA)
        self._blobs = blobs
        self._key = release_key
        self._check_chain()

    def latest(self) -> PolicyManifest | None:
        """The newest version; None while only the base model, version 0, is in force."""
        row = self._database.row("SELECT manifest FROM policies ORDER BY version DESC LIMIT 1")
        return PolicyManifest.open(row["manifest"], self._key.public) if row else None

    def manifest_bytes(self, version: int) -> bytes:
        """The signed manifest of one version; raises StorageError when there is no such version."""
        row = self._database.row("SELECT manifest FROM policies WHERE version = ?", (version,))
        if row is None:
            raise StorageError(f"There is no policy {version}", "", "list them: fedaigc-server policy list")
        return bytes(row["manifest"])

    def release(
        self,
        adapter: Adapter,
        head: RewardHead,
        round_id: RoundId,
        updates: int,
        epsilon_max: float,
        minute: int,
    ) -> bytes:
        """Make the next version and return its signed manifest; for a known round, that round's one again.

        Blobs are durable before the row, so no manifest ever names a blob that is missing.
        Raises VerificationFailed when adapter and head, or the chain's base model, do not belong together.
        """
        names = (self._blobs.put(adapter.to_bytes()), self._blobs.put(head.to_bytes()))
        with self._database.transaction() as write:
            row = write.execute("SELECT manifest FROM policies WHERE round = ?", (round_id,)).fetchone()
            if row is not None:
                return bytes(row["manifest"])
            parent = self.latest()
            models = {adapter.base_model, head.base_model} | ({parent.base_model} if parent else set())
            if len(models) > 1:
                raise VerificationFailed("A policy mixes base models", "", "run rounds for one base model")
            version = PolicyVersion(parent.version + 1 if parent else 1)
            manifest = PolicyManifest(
                version=version,
                parent=PolicyVersion(version - 1),
                parent_manifest=PolicyManifest.digest(self.manifest_bytes(version - 1)) if parent else "",
                base_model=adapter.base_model,
                adapter=names[0],
                head=names[1],
                round=round_id,
                updates=updates,
                epsilon_max=epsilon_max,
                minute=minute,
            )
            signed = manifest.signed(self._key)
            write.execute("INSERT INTO policies VALUES (?, ?, ?)", (version, round_id, signed))
            return signed

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def _check_chain(self) -> None:
        parent = ""
        rows = self._database.rows("SELECT version, manifest FROM policies ORDER BY version")
        for number, row in enumerate(rows, start=1):
            signed = bytes(row["manifest"])
            manifest = PolicyManifest.open(signed, self._key.public)
            if (manifest.version, row["version"], manifest.parent_manifest) != (number, number, parent):
                raise VerificationFailed(
                    f"The chain of policies breaks at version {number}",
                    "a version is missing or was replaced",
                    "restore the server's database from a backup",
                )
            parent = PolicyManifest.digest(signed)
