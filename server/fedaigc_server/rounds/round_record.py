"""What of a round goes to the ledger: every update that was judged, and the policy that came of them."""

from __future__ import annotations

from dataclasses import dataclass

from fedaigc.identifiers import NodeId, RoundId
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.manifest import PolicyManifest
from fedaigc.signing import b64
from fedaigc.update import NodeUpdate
from fedaigc_server.clock import Clock
from fedaigc_server.record_once import RecordOnce

MAX_REASON_CHARS = 300


@dataclass(frozen=True)
class RoundRecord:
    """Writes each thing once, whatever is repeated."""

    record: RecordOnce
    clock: Clock

    def accepted(self, update: NodeUpdate, digest: str) -> None:
        """A counted update: its hash, its spend, and the root of the fingerprints that it learned from."""
        body = {
            "round": update.round,
            "parent": update.parent,
            "payload": digest,
            "fingerprint_root": b64(update.fingerprint_root),
            "epsilon": f"{update.epsilon_spent:.6f}",
            "delta": f"{update.delta:g}",
            "accepted": True,
            "reason": "",
        }
        self._write(
            f"update:{update.round}:{update.node}",
            LedgerEntry("update", update.node, self.clock.minute(), body),
        )

    def refused(self, round_id: RoundId, node: NodeId, parent: int, digest: str, reason: str) -> None:
        """An update that was not counted; what it claimed is not repeated, for nothing of it was verified."""
        body = {
            "round": round_id,
            "parent": parent,
            "payload": digest,
            "fingerprint_root": "",
            "epsilon": "",
            "delta": "",
            "accepted": False,
            "reason": reason[:MAX_REASON_CHARS],
        }
        self._write(f"update:{round_id}:{node}", LedgerEntry("update", node, self.clock.minute(), body))

    def released(self, manifest: PolicyManifest, signed: bytes) -> None:
        """A new policy version."""
        body = {
            "version": manifest.version,
            "parent": manifest.parent,
            "manifest": PolicyManifest.digest(signed),
            "round": manifest.round,
            "updates": manifest.updates,
        }
        self._write(f"policy:{manifest.version}", LedgerEntry("policy", None, manifest.minute, body))

    def _write(self, key: str, entry: LedgerEntry) -> None:
        self.record.record(key, entry)
