"""The two sockets: private, replaced after a crash, and a taken port is explained."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from fedaigc.errors import SettingsError
from fedaigc_edge.listening import Listening, loopback_socket, private_unix_socket


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        raise RuntimeError("no lifespan")
    await asyncio.sleep(0.2)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def test_a_taken_port_is_a_settings_error_that_says_how_to_choose_another() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(SettingsError, match="--port"):
            loopback_socket(other.getsockname()[1])


def test_port_zero_takes_a_free_one_on_loopback_only() -> None:
    with loopback_socket(0) as listener:
        host, port = listener.getsockname()
    assert host == "127.0.0.1"
    assert port > 0


def test_the_unix_socket_is_private_and_replaces_a_dead_one(tmp_path: Path) -> None:
    path = tmp_path / "daemon.sock"
    private_unix_socket(path).close()
    with private_unix_socket(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_name_too_long_for_a_socket_is_explained(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="shorter"):
        private_unix_socket(tmp_path / ("x" * 120))


def test_a_running_answer_is_finished_at_a_stop() -> None:
    async def go() -> str:
        listening = Listening(_hello, loopback_socket(0), drain_s=5)
        await listening.start()
        async with httpx.AsyncClient(trust_env=False) as http:
            asking = asyncio.create_task(http.get(f"http://127.0.0.1:{listening.port}/"))
            await asyncio.sleep(0.1)
            await listening.stop()
            return (await asking).text

    assert asyncio.run(go()) == "hello"


def test_no_write_waits_for_a_peers_delayed_acknowledgement() -> None:
    async def scenario() -> int:
        seen: list[int] = []

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted = writer.get_extra_info("socket")
            seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = loopback_socket(0)
        async with await asyncio.start_server(connected, sock=listener):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await reader.read()
            writer.close()
        return seen[0]

    assert asyncio.run(scenario()) == 1
