"""A round's steps over a site, with devices that answer honestly."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

import pytest

from fedaigc.identifiers import RoundId
from fedaigc_server.rounds.learning_settings import LearningSettings
from fedaigc_server.rounds.release import Release
from fedaigc_server.rounds.round_record import RoundRecord
from fedaigc_server.rounds.run_round import RunRound
from tests.server.conftest import Site
from tests.server.fake_device import FakeDevice


@dataclass
class Learning:
    """Two devices and the state machine; `begin` brings a round to its training."""

    site: Site
    devices: list[FakeDevice] = field(default_factory=list)

    @property
    def rounds(self) -> RunRound:
        stores = self.site.stores
        return RunRound(
            store=stores.rounds,
            registry=stores.registry,
            files=stores.updates,
            record=RoundRecord(stores.record, self.site.clock),
            release=Release(stores.policies, stores.blobs, self.site.identity.release_key.public),
            learning=LearningSettings(),
            release_key=self.site.identity.release_key,
            clock=self.site.clock,
        )

    def flower_id(self, device: FakeDevice) -> str:
        node = self.site.stores.registry.node(device.node)
        assert node is not None
        return node.flower_id or ""

    def statuses(self) -> dict[str, str]:
        return {self.flower_id(device): base64.b64encode(device.status()).decode() for device in self.devices}

    def begin(self, min_nodes: int = 2, deadline_s: int = 600) -> tuple[RoundId, bytes]:
        """A round whose plan is signed, in its first attempt; its name and plan."""
        round_id = self.rounds.create(min_nodes, deadline_s)
        self.site.stores.rounds.change(round_id, attempt=1, flower_run="1")
        self.rounds.begin(round_id, 1)
        plan = self.rounds.statuses(round_id, 1, self.statuses())["plan"]
        return round_id, base64.b64decode(plan)

    def send(self, round_id: RoundId, device: FakeDevice, data: bytes, attempt: int = 1) -> bool:
        return bool(self.rounds.update(round_id, attempt, self.flower_id(device), data)["accepted"])


@pytest.fixture
def learning(site: Site) -> Learning:
    return Learning(site, [site.enrolled("one"), site.enrolled("two")])
