"""A server's stores with a fake Flower, for tests that need no process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fedaigc.errors import Unavailable
from fedaigc.join_token import JoinToken
from fedaigc_server.clock import Clock
from fedaigc_server.enrolment import Enrolment, EnrolRequest
from fedaigc_server.federation.superlink_api import GONE, RUNNING
from fedaigc_server.identity import ServerIdentity, load_identity
from fedaigc_server.stores import Stores, open_stores
from tests.server.fake_device import FakeDevice

NOW = 1_790_000_000
CA = "c0" * 32


@dataclass
class FakeFlower:
    """SuperLink's Control API as a dictionary; `down` makes every call fail."""

    nodes: dict[str, str] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    down: bool = False
    calls: int = 0

    def register(self, public_key_pem: str) -> str:
        self._up()
        return self.nodes.setdefault(public_key_pem, str(1000 + len(self.nodes)))

    def unregister(self, flower_id: str) -> None:
        self._up()
        self.nodes = {key: number for key, number in self.nodes.items() if number != flower_id}

    def registered(self) -> dict[str, str]:
        self._up()
        return dict(self.nodes)

    def start_run(self, round_id: str, attempt: int) -> str:
        self._up()
        run = str(len(self.runs) + 1)
        self.runs[run] = RUNNING
        return run

    def run_state(self, run_id: str) -> str:
        self._up()
        return self.runs.get(run_id, GONE)

    def stop_run(self, run_id: str) -> None:
        self._up()
        self.stopped.append(run_id)

    def _up(self) -> None:
        self.calls += 1
        if self.down:
            raise Unavailable("Flower's SuperLink does not answer", "the test says so", "wait")


@dataclass
class Site:
    """Everything of a server that does not run: stores, keys, enrolment, and a clock that the test turns."""

    data: Path
    identity: ServerIdentity
    stores: Stores
    flower: FakeFlower
    seconds: float = NOW

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.seconds)

    @property
    def enrolment(self) -> Enrolment:
        return Enrolment(
            database=self.stores.database,
            registry=self.stores.registry,
            tokens=self.stores.tokens,
            flower=self.flower,
            record=self.stores.record,
            identity=self.identity,
            log_vkey=self.stores.signer.vkey(),
            poll_s=15,
            clock=self.clock,
        )

    def token(self, region: str = "eu", lasts_s: int = 3600) -> JoinToken:
        return self.stores.tokens.create("127.0.0.1:8443", CA, region, "edge", int(self.seconds), lasts_s)

    def enrolled(self, name: str = "device") -> FakeDevice:
        """A device that has joined."""
        device = FakeDevice(name)
        request = EnrolRequest.read(device.enrol_body(self.token()))
        device.accept(self.enrolment.enrol(request))
        return device

    def reopened(self) -> Site:
        """The same data after a restart of the process."""
        self.stores.close()
        return Site(
            self.data, self.identity, open_stores(self.data, self.identity), self.flower, self.seconds
        )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    identity = load_identity(tmp_path / "server", tmp_path / "officer")
    one = Site(tmp_path / "server", identity, open_stores(tmp_path / "server", identity), FakeFlower())
    yield one
    one.stores.close()
