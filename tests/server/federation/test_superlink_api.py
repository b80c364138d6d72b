"""The Control API calls against a real SuperLink process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedaigc.errors import ProcessFailed, Unavailable
from fedaigc.files import private_folder
from fedaigc.join_token import JoinToken
from fedaigc_server.certificates import ensure_certificates
from fedaigc_server.clock import Clock
from fedaigc_server.federation.processes import FlowerProcesses
from fedaigc_server.federation.superlink_api import ENDED, GONE, RUNNING, SuperLinkApi
from fedaigc_server.registry import flower_key_pem
from tests.server.fake_device import FakeDevice
from tests.server.live_server import wait_for

ROUND = "r-0123456789abcdef"
TOKEN = JoinToken("127.0.0.1:1", "00" * 32, "00" * 16, 1, "eu")


def _key() -> str:
    text = str(FakeDevice().enrol_body(TOKEN)["flower_key"])
    return flower_key_pem(text)


def test_an_unreachable_superlink_is_unavailable(tmp_path: Path) -> None:
    certificates, _ = ensure_certificates(private_folder(tmp_path), (), datetime.now(UTC))
    api = SuperLinkApi("127.0.0.1:1", str(certificates.ca))
    with pytest.raises(Unavailable, match="restarts by itself"):
        api.registered()


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerProcesses]:
    data = private_folder(tmp_path_factory.mktemp("flower"))
    certificates, _ = ensure_certificates(private_folder(data / "keys"), (), datetime.now(UTC))
    stop, ready = asyncio.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    made: list[FlowerProcesses] = []

    async def serve() -> None:
        processes = FlowerProcesses(data, certificates, lambda: None, Clock())
        made.append(processes)
        await processes.start()
        loops.append(asyncio.get_running_loop())
        ready.set()
        await stop.wait()
        await processes.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(90)
    yield made[0]
    loops[0].call_soon_threadsafe(stop.set)
    thread.join(30)


@pytest.mark.slow
def test_registering_twice_gives_the_same_id_and_unregistering_twice_is_fine(flower: FlowerProcesses) -> None:
    key = _key()
    first = flower.api.register(key)
    assert flower.api.register(key) == first
    assert flower.api.registered()[key] == first
    flower.api.unregister(first)
    flower.api.unregister(first)
    assert key not in flower.api.registered()


@pytest.mark.slow
def test_a_key_that_was_unregistered_is_refused_with_what_to_do(flower: FlowerProcesses) -> None:
    key = _key()
    flower.api.unregister(flower.api.register(key))
    try:
        flower.api.register(key)
    except ProcessFailed as error:
        assert "new token" in error.do_next


@pytest.mark.slow
def test_a_run_can_be_started_seen_and_stopped(flower: FlowerProcesses, tmp_path: Path) -> None:
    run = flower.api.start_run(ROUND, 1)
    assert flower.api.run_state(run) in (RUNNING, ENDED)
    flower.api.stop_run(run)
    wait_for(lambda: flower.api.run_state(run) == ENDED, 30)
    flower.api.stop_run(run)
    assert flower.api.run_state("12345") == GONE
    flower.api.stop_run("12345")


@pytest.mark.slow
def test_both_processes_are_reported(flower: FlowerProcesses) -> None:
    status = flower.status()
    assert set(status) == {"flower-superlink", "flower-superexec"}
