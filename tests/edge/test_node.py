"""A whole device: it serves once it is ready, falls silent when it must, and stops in order."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc.errors import (
    FolderInUse,
    IdentityError,
    LedgerError,
    ModelError,
    NotAuthorised,
    SettingsError,
    StorageError,
    Unavailable,
)
from fedaigc.files import folder_lock
from fedaigc.fingerprint import month_of
from fedaigc.signing import b64
from fedaigc_edge import node
from fedaigc_edge.evidence.delivery import BATCH_PATH
from fedaigc_edge.federation.tag_keys import TagKeys
from fedaigc_edge.identity import Identity
from fedaigc_edge.model.store import open_model
from fedaigc_edge.node import run_device
from fedaigc_edge.settings import EdgeSettings
from fedaigc_edge.standing import StandingRecord, State
from tests.edge.enrolled import enrolled
from tests.edge.running_device import QUESTION, DeviceFolder, PlayedServer, device_folder, running
from tests.edge.serve.scripted_generator import ScriptedGenerator
from tests.edge.tls_server import make_ca, tls_server

REVOKED = NotAuthorised("This node was revoked", "lost laptop", "ask the operator for a new token")


@pytest.fixture
def server() -> PlayedServer:
    return PlayedServer()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: PlayedServer) -> Iterator[DeviceFolder]:
    ca = make_ca(tmp_path / "ca")
    with tls_server(ca, server) as (address, _):
        yield device_folder(tmp_path, monkeypatch, address, ca, ScriptedGenerator())


def _wait_for(event: threading.Event) -> None:
    event.wait(10)


def test_it_is_not_ready_until_the_model_is_loaded_and_then_answers(folder: DeviceFolder) -> None:
    loading = threading.Event()
    folder.load = lambda: _wait_for(loading)

    async def go() -> None:
        async with running(folder) as device:
            early = await device.http.get("/ready")
            assert (early.status_code, (await device.http.get("/health")).status_code) == (503, 200)
            assert (await device.private.post("/status")).status_code == 503
            loading.set()
            await device.until(lambda found: found["ready"])
            answer = await device.http.post("/v1/chat/completions", json=QUESTION)
            assert answer.json()["choices"][0]["message"]["content"] == "Hello, world!"
            found = await device.status()
            assert (found["fingerprinted"], found["outbox"], found["policy"]) == (1, 1, 0)
            assert found["api"] == json.loads((folder.data / "run" / "api.json").read_text())["url"]
            assert (await device.private.post("/status")).json()["base_model"] == "ab" * 32

    asyncio.run(go())


def test_a_revoked_device_falls_silent_keeps_its_data_and_returns_when_the_server_says_so(
    folder: DeviceFolder, server: PlayedServer
) -> None:
    async def go() -> None:
        async with running(folder) as device:
            await device.until(lambda found: found["ready"] and found["supernode"]["state"] == "connected")
            await device.http.post("/v1/chat/completions", json=QUESTION)
            server.refusal = REVOKED
            found = await device.until(lambda found: found["standing"] == "revoked")
            answer = await device.http.post("/v1/chat/completions", json=QUESTION)
            assert answer.status_code == 503
            assert "lost laptop" in answer.text
            assert (await device.private.post("/round", content=b"plan")).status_code == 403
            found = await device.until(lambda found: found["supernode"]["state"] == "stopped")
            assert found["fingerprinted"] == 1
            assert "new token" in found["do_next"]
            server.refusal = None
            await device.until(lambda found: found["ready"], seconds=15)
            await device.until(lambda found: found["supernode"]["state"] == "connected")

    asyncio.run(go())
    assert StandingRecord(folder.data).current.state is State.ACTIVE


def test_a_device_that_was_revoked_is_silent_from_its_start_though_no_server_answers(
    folder: DeviceFolder, server: PlayedServer
) -> None:
    StandingRecord(folder.data).revoked(REVOKED)
    server.refusal = Unavailable("Not now")

    async def go() -> None:
        async with running(folder) as device:
            await device.until(lambda found: found["problem"] != "")
            found = await device.status()
            assert (found["ready"], found["supernode"]["state"]) == (False, "stopped")
            assert "revoked" in (await device.http.get("/ready")).text

    asyncio.run(go())


@pytest.mark.parametrize("name", ["learn.db", "evidence.db"])
@pytest.mark.parametrize("how", ["emptied", "missing"])
def test_a_device_whose_memory_was_taken_does_not_start_and_starts_again_with_the_newest_copy(
    folder: DeviceFolder, name: str, how: str
) -> None:
    async def go() -> None:
        async with running(folder) as device:
            await device.until(lambda found: found["ready"])
            await device.http.post("/v1/chat/completions", json=QUESTION)

    asyncio.run(go())
    path = folder.data / name
    newest = path.read_bytes()
    path.unlink() if how == "missing" else path.write_bytes(b"")
    with pytest.raises(StorageError, match=rf"{name}.*{how}.*newest copy"):
        folder.device()
    path.write_bytes(newest)
    asyncio.run(go())


class RefusingLedger(PlayedServer):
    """Says for every batch that its number was used before."""

    def __call__(self, request: Request, body: bytes) -> Response:
        if request.url.path != BATCH_PATH:
            return super().__call__(request, body)
        error = LedgerError("Node n used the number 1 twice", "restored", "fedaigc-edge leave --erase")
        return JSONResponse({"error": error.as_json()}, 409)


def test_a_device_whose_number_was_used_before_falls_silent_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = make_ca(tmp_path / "ca")

    async def go(folder: DeviceFolder) -> None:
        async with running(folder) as device:
            await device.until(lambda found: found["ready"])
            await device.http.post("/v1/chat/completions", json=QUESTION)
            found = await device.until(lambda found: not found["ready"])
            assert found["delivery_stopped"]
            assert "leave --erase" in found["delivery_problem"]
            assert "twice" in found["not_ready"]
            answer = await device.http.post("/v1/chat/completions", json=QUESTION)
            assert (answer.status_code, (await device.http.get("/ready")).status_code) == (503, 503)
            assert "leave --erase" in answer.text
            # A server that calls the device active does not open it again.
            device.device._standing_changed(device.device._standing.current)
            assert not (await device.status())["ready"]
            assert (await device.status())["fingerprinted"] == 1

    with tls_server(ca, RefusingLedger()) as (address, _):
        folder = device_folder(tmp_path, monkeypatch, address, ca, ScriptedGenerator())
        sealing = Identity.load(folder.data / "keys").sealing
        key = b64(sealing.public.seal("tag-key", bytes(32)))
        TagKeys(folder.data, sealing).keep({month_of(datetime.now(UTC)): key})
        asyncio.run(go(folder))


def test_an_answer_that_runs_at_a_stop_is_finished_and_nothing_is_left_behind(folder: DeviceFolder) -> None:
    folder.generator.pause_s = 0.2

    async def go() -> str:
        async with running(folder) as device:
            await device.until(lambda found: found["ready"])
            asking = asyncio.create_task(device.http.post("/v1/chat/completions", json=QUESTION))
            await asyncio.sleep(0.3)
            device.device._stop.ask("test")
            return str((await asking).json()["choices"][0]["message"]["content"])

    assert asyncio.run(go()) == "Hello, world!"
    assert not (folder.data / "run" / "api.json").exists()


def test_leaving_stops_the_device_and_it_does_not_start_again_by_itself(folder: DeviceFolder) -> None:
    async def go() -> None:
        async with running(folder) as device:
            await device.private.post("/leave")

    asyncio.run(go())
    with pytest.raises(IdentityError, match="run the join command again"):
        run_device(folder.settings())


def test_the_socket_is_private(folder: DeviceFolder) -> None:
    async def go() -> int:
        async with running(folder) as device:
            return (device.data / "run" / "daemon.sock").stat().st_mode

    assert stat.S_IMODE(asyncio.run(go())) == 0o600


def test_a_taken_port_is_said_before_anything_is_started(folder: DeviceFolder) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(SettingsError, match="--port"):
            asyncio.run(folder.device(other.getsockname()[1]).run())
    assert not (folder.data / "logs" / "supernode.log").exists()


def test_a_model_that_cannot_be_loaded_ends_the_device_with_its_reason(folder: DeviceFolder) -> None:
    def fail() -> None:
        raise ModelError("The model cannot be loaded", "damaged", "run: fedaigc-edge model export")

    folder.load = fail
    with pytest.raises(ModelError, match="model export"):
        asyncio.run(folder.device().run())


def test_a_folder_without_enrolment_or_in_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="fedaigc-edge join"):
        run_device(EdgeSettings(data=tmp_path))
    enrolled(tmp_path)
    with folder_lock(tmp_path), pytest.raises(FolderInUse):
        run_device(EdgeSettings(data=tmp_path))


def test_a_missing_model_names_the_command_that_fetches_it(
    folder: DeviceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "open_model", open_model)
    with pytest.raises(ModelError, match="model pull"):
        folder.device()
