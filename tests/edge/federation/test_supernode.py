"""The SuperNode's state in plain words, and its supervision with a stand-in program."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from fedaigc.errors import SettingsError
from fedaigc_edge.federation import supernode
from fedaigc_edge.federation.supernode import SuperNode, SuperNodeState, free_port, node_config, read_state

REFUSED = """ERROR :     Exit Code: 305
Failed to initialize the connection to the SuperLink.
[code: 2004] Failed to activate SuperNode.
This device's key is not registered here: it never enrolled, or was revoked.
The SuperNode could not establish a connection to the SuperLink.

For more information, visit: <https://flower.ai/docs/framework/1.42/en/ref-exit-codes/305.html>
"""


def test_states_are_read_from_the_log() -> None:
    assert read_state("Starting Flower SuperNode", True, 0).state == "starting"
    assert read_state("INFO :      SuperNode ID: 123456", True, 2).state == "connected"
    assert read_state("Traceback", False, 1).state == "restarting"


def test_an_unknown_key_is_called_refused_and_says_what_to_do() -> None:
    state = read_state(REFUSED, False, 3)
    assert (state.state, state.restarts) == ("refused", 3)
    assert "ask the operator" in state.message


def test_a_server_that_is_starting_is_told_apart_from_a_refusal() -> None:
    text = "Exit Code: 305\nFailed to initialize the connection.\nServer error '502 Bad Gateway'\n"
    state = read_state(text, False, 0)
    assert state.state == "waiting"
    assert "does not answer" in state.message


def test_a_former_life_that_still_counts_as_online_is_told_apart_from_a_refusal() -> None:
    text = REFUSED.replace(
        "This device's key is not registered here: it never enrolled, or was revoked.\n", ""
    )
    state = read_state(text, False, 0)
    assert state.state == "waiting"
    assert "within a minute" in state.message


def test_the_node_config_names_the_socket() -> None:
    assert node_config(Path("/data/run/daemon.sock")) == 'socket="/data/run/daemon.sock"'
    with pytest.raises(SettingsError):
        node_config(Path('/da"ta/run/daemon.sock'))


def test_a_free_port_can_be_bound() -> None:
    assert 1024 < free_port() < 65536


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a stand-in for Flower's program, beside the interpreter."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    program = folder / "flower-supernode"
    program.write_text('#!/bin/sh\necho "$@"\n/usr/bin/env\necho "SuperNode ID: 7"\nexec /bin/sleep 60\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    return folder


def _supernode(data: Path) -> SuperNode:
    return SuperNode(data, "127.0.0.1:9", data / "ca.crt", data / "keys/flower.key", data / "run/daemon.sock")


async def _until(node: SuperNode, state: str) -> None:
    async with asyncio.timeout(10):
        while node.state().state != state:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def _pid(node: SuperNode) -> int | None:
    """The living process's number; None between two lives."""
    process = node._supervisor.process if node._supervisor is not None else None
    return process.pid if process is not None else None


def test_it_is_started_with_its_own_home_and_without_phone_home_and_ended_on_stop(
    tmp_path: Path, scripts: Path
) -> None:
    data = tmp_path / "data"

    async def go() -> tuple[str, int]:
        node = _supernode(data)
        assert node.state().state == "stopped"
        node.start()
        await _until(node, "connected")
        pid = _pid(node)
        assert pid is not None
        await node.stop()
        assert node.state().state == "stopped"
        return (data / "logs" / "supernode.log").read_text(), pid

    text, pid = asyncio.run(go())
    for part in (
        "--superlink 127.0.0.1:9",
        f"--root-certificates {data}/ca.crt",
        f'--node-config socket="{data}/run/daemon.sock"',
        "--host 127.0.0.1 --port ",
        f"FLWR_HOME={data}/flower",
        "FLWR_TELEMETRY_ENABLED=0",
        "FLWR_DISABLE_UPDATE_CHECK=1",
        f"FEDAIGC_OWNER={data}",
        f"PATH={data}/flower/bin\n",
    ):
        assert part in text
    assert "--insecure" not in text
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.usefixtures("scripts")
def test_a_killed_one_is_signed_off_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[int]()

    async def farewell(address: str, ca_file: Path, flower_key: Path, flower_node: int) -> bool:
        told.append(flower_node)
        return True

    monkeypatch.setattr(supernode, "say_farewell", farewell)

    async def go() -> None:
        node = _supernode(tmp_path)
        node.start()
        await _until(node, "connected")
        assert told == []
        first = _pid(node)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(10):
            while _pid(node) in (None, first) or node.state().state != "connected":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert (told, node.state().restarts) == ([7], 1)
        await node.stop()

    asyncio.run(go())


@pytest.mark.usefixtures("scripts")
def test_a_start_while_it_is_being_stopped_holds(tmp_path: Path) -> None:
    async def go() -> None:
        node = _supernode(tmp_path)
        node.start()
        await _until(node, "connected")
        stopping = asyncio.create_task(node.stop())
        await asyncio.sleep(0)
        node.start()
        await stopping
        await _until(node, "connected")
        await node.stop()
        assert node.state().state == "stopped"

    asyncio.run(go())


def test_a_missing_program_is_a_state_not_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    async def go() -> None:
        node = _supernode(tmp_path)
        node.start()
        await _until(node, "stopped")
        assert "cannot be started" in node.state().message
        await node.stop()

    asyncio.run(go())


def test_flower_can_start_nothing_but_its_executor_and_our_app(tmp_path: Path, scripts: Path) -> None:
    asyncio.run(_started_and_stopped(tmp_path / "data"))
    programs = {path.name: path.read_text() for path in (tmp_path / "data" / "flower" / "bin").iterdir()}
    assert set(programs) == {"flower-superexec", "flwr-clientapp"}
    assert "fedaigc_edge.federation.client_app" in programs["flwr-clientapp"]


async def _started_and_stopped(data: Path) -> None:
    node = _supernode(data)
    node.start()
    await _until(node, "connected")
    await node.stop()


def test_nobody_is_connected_to_a_server_that_cannot_be_reached() -> None:
    connected = SuperNodeState("connected", "", 2)
    assert connected.beside(reachable=True) == connected
    beside = connected.beside(reachable=False)
    assert (beside.state, beside.restarts) == ("waiting", 2)
    assert "does not answer" in beside.message
    refused = SuperNodeState("refused", "ask the operator")
    assert refused.beside(reachable=False) == refused
