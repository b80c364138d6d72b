"""From a round's accepted updates to a new signed policy version."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from fedaigc.adapter import Adapter
from fedaigc.manifest import PolicyManifest
from fedaigc.reward_head import RewardHead
from fedaigc.round_plan import RoundPlan
from fedaigc.signing import PublicKey
from fedaigc.update import NodeUpdate
from fedaigc_server.blobs import Blobs
from fedaigc_server.policy.versions import PolicyVersions
from fedaigc_server.rounds.aggregate import average

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Release:
    """Averages onto the parent and lets `PolicyVersions` make the version; idempotent by the round."""

    policies: PolicyVersions
    blobs: Blobs
    release_public: PublicKey

    def parent(self) -> PolicyManifest | None:
        """The newest policy, None while there is only the base model."""
        return self.policies.latest()

    def release(
        self, plan: RoundPlan, updates: Sequence[NodeUpdate], minute: int
    ) -> tuple[PolicyManifest, bytes]:
        """The new version's manifest and its signed bytes; the same ones when the round was released."""
        latest = self.policies.latest()
        if latest is not None and latest.round == plan.round:
            return latest, self.policies.manifest_bytes(latest.version)
        adapter, head, error = average(updates, *self._parts(latest), plan)
        log.info("event=averaged round=%s updates=%d exactness_error=%.1e", plan.round, len(updates), error)
        epsilon = max(update.epsilon_spent for update in updates)
        signed = self.policies.release(adapter, head, plan.round, len(updates), epsilon, minute)
        return PolicyManifest.open(signed, self.release_public), signed

    def _parts(self, parent: PolicyManifest | None) -> tuple[Adapter | None, RewardHead | None]:
        if parent is None:
            return None, None
        return (
            Adapter.from_bytes(self.blobs.get(parent.adapter)),
            RewardHead.from_bytes(self.blobs.get(parent.head)),
        )
