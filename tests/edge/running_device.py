"""A whole device in the test's own process: real parts and sockets, a scripted model, no Flower."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc.adapter import AdapterShape, AdapterSlot
from fedaigc.errors import FedaigcError, Unavailable
from fedaigc_edge import node
from fedaigc_edge.commands.daemon_call import SOCKET_FILE
from fedaigc_edge.engine.batching_window import BatchingWindow
from fedaigc_edge.enrolment import CA_FILE, Enrolment
from fedaigc_edge.identity import Identity
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.node import Device
from fedaigc_edge.settings import EdgeSettings, FederationSettings, ServeSettings
from tests.edge.enrolled import enrolled
from tests.edge.serve.scripted_generator import ScriptedGenerator
from tests.edge.tls_server import TestCa
from tests.tiny_model import TINY_SIZES

QUESTION = {"model": "tiny", "messages": [{"role": "user", "content": "hello there"}]}


@dataclass
class PlayedServer:
    """What the server says; change it while a device runs."""

    refusal: FedaigcError | None = None
    policy: int = 0
    beats: int = 0

    def __call__(self, request: Request, body: bytes) -> Response:
        """Answer one call of the device."""
        if self.refusal is not None:
            return JSONResponse({"error": self.refusal.as_json()}, 403)
        if request.url.path == "/v1/node/heartbeat":
            self.beats += 1
            return JSONResponse({"standing": "active", "policy": self.policy})
        if request.url.path == "/v1/policies/latest":
            return Response(status_code=204)
        return JSONResponse({"error": Unavailable("Not now").as_json()}, 503)


@dataclass
class DeviceFolder:
    """An enrolled folder, and how its device is started."""

    data: Path
    generator: ScriptedGenerator
    load: Callable[[], None] = field(default=lambda: None)
    """Runs while the model is being loaded, in its thread."""

    def settings(self, port: int = 0) -> EdgeSettings:
        return EdgeSettings(
            data=self.data,
            model="tiny",
            serve=ServeSettings(port=port, drain_s=5),
            federation=FederationSettings(heartbeat_s=1, policy_poll_s=1, delivery_s=0.1),
        )

    def device(self, port: int = 0) -> Device:
        return Device(self.settings(port), Enrolment.load(self.data))


def device_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, ca: TestCa, generator: ScriptedGenerator
) -> DeviceFolder:
    """Enrol a folder at `address`, and make `node` build its device with `generator` for a model."""
    data = tmp_path / "device"
    Identity.load_or_create(data / "keys")
    enrolled(data, address)
    (data / CA_FILE).write_bytes(ca.ca_file.read_bytes())
    _play_flower(tmp_path / "bin", monkeypatch)
    folder = DeviceFolder(data, generator)

    def load(model: ModelFolder, serve: ServeSettings, window: BatchingWindow) -> ScriptedGenerator:
        folder.load()
        return generator

    monkeypatch.setattr(node, "open_model", lambda models, name: _model(tmp_path, name, generator.base_model))
    monkeypatch.setattr(node, "_load_generator", load)
    return folder


@dataclass
class RunningDevice:
    """A device that runs in this event loop."""

    device: Device
    data: Path
    http: httpx.AsyncClient
    private: httpx.AsyncClient

    async def status(self) -> dict[str, Any]:
        """What `fedaigc-edge status --json` would say."""
        return dict((await self.private.get("/status/full")).json())

    async def until(self, true: Callable[[dict[str, Any]], bool], seconds: float = 10.0) -> dict[str, Any]:
        """Wait until the status is so."""
        async with asyncio.timeout(seconds):
            while not true(found := await self.status()):  # noqa: ASYNC110 (it asks over HTTP)
                await asyncio.sleep(0.05)
        return found


@asynccontextmanager
async def running(folder: DeviceFolder) -> AsyncIterator[RunningDevice]:
    """Start the device, and stop it in order at the end."""
    device = folder.device()
    task = asyncio.create_task(device.run())
    transport = httpx.AsyncHTTPTransport(uds=str(folder.data / SOCKET_FILE))
    async with asyncio.timeout(10):
        while device._api is None or not (folder.data / "run" / "api.json").exists():
            assert not task.done(), task.exception()
            await asyncio.sleep(0.01)
    async with (
        httpx.AsyncClient(base_url=device._url, trust_env=False, timeout=20) as http,
        httpx.AsyncClient(base_url="http://daemon", transport=transport, timeout=20) as private,
    ):
        yield RunningDevice(device, folder.data, http, private)
        device._stop.ask("test")
        await asyncio.wait_for(task, 20)


def _model(root: Path, name: str, base_model: str) -> ModelFolder:
    shape = AdapterShape(2, 4.0, (AdapterSlot(0, "q_proj", 8, 8),))
    return ModelFolder(name, root, base_model, shape, (), 0, 8, TINY_SIZES, (2,), {}, {}, {})


def _play_flower(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts.mkdir()
    (scripts / "python").symlink_to(sys.executable)
    program = scripts / "flower-supernode"
    program.write_text('#!/bin/sh\necho "SuperNode ID: 7"\nexec /bin/sleep 60\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
