"""Flower's SuperNode beside the daemon: started, watched, restarted, and its state in plain words."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from fedaigc.child_process import (
    FIRST_BACKOFF_S,
    LONGEST_BACKOFF_S,
    STEADY_AFTER_S,
    ChildSpec,
    Supervisor,
)
from fedaigc.closed_path import closed_path
from fedaigc.errors import ProcessFailed, SettingsError
from fedaigc.files import private_folder
from fedaigc_edge.federation.flower_farewell import say_farewell

MAX_LOG_BYTES = 5 << 20
"""Flower's log is moved aside when it is larger at a start."""
TAIL_BYTES = 16 << 10

_CONNECTED = re.compile(r"SuperNode ID: (\d+)")
_REFUSED = re.compile(r"Exit Code: 305(.*?)(?:For more information|$)", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

log = logging.getLogger("fedaigc.edge.supernode")


@dataclass(frozen=True)
class SuperNodeState:
    """`state`: stopped, starting, connected, waiting, refused or restarting; `message`: what to do."""

    state: str
    message: str = ""
    restarts: int = 0

    def beside(self, reachable: bool) -> SuperNodeState:
        """The state as the device tells it: Flower's log still says connected when the server has gone."""
        if self.state != "connected" or reachable:
            return self
        return replace(self, state="waiting", message="the server does not answer: it is tried again")


class SuperNode:
    """One device's SuperNode. Its ClientApp reaches the daemon through the unix socket in the node config."""

    def __init__(
        self, data: Path, address: str, ca_file: Path, flower_key: Path, daemon_socket: Path
    ) -> None:
        self._home = data / "flower"
        self._log = data / "logs" / "supernode.log"
        self._owner = data
        self._address, self._ca_file, self._flower_key = address, ca_file, flower_key
        self._arguments = (
            "--superlink", address,
            "--root-certificates", str(ca_file),
            "--auth-supernode-private-key", str(flower_key),
            "--node-config", node_config(daemon_socket),
            "--host", "127.0.0.1",
        )  # fmt: skip
        self._supervisor: Supervisor | None = None
        self._task: asyncio.Task[None] | None = None
        self._log_start = 0
        self._restarts = 0
        self._wanted = False

    def start(self) -> None:
        """Begin supervising; a second call changes nothing. Must run in the daemon's main thread."""
        self._wanted = True
        if self._task is not None and not self._task.done():
            return
        private_folder(self._home)
        private_folder(self._log.parent)
        self._task = asyncio.create_task(self._supervise(), name="supernode")

    async def stop(self) -> None:
        """End the SuperNode and its children; returns when they are gone. A `start` meanwhile holds."""
        self._wanted = False
        task = self._task
        if task is None:
            return
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ProcessFailed):
            await task
        if task is self._task:
            self._task = self._supervisor = None
            if self._wanted:
                self.start()

    def state(self) -> SuperNodeState:
        """What the process and its log say now."""
        if self._task is None:
            return SuperNodeState("stopped")
        if self._task.done():
            return SuperNodeState("stopped", "it cannot be started; see logs/edge.log", self._restarts)
        running = self._supervisor is not None and self._supervisor.running
        return read_state(self._tail(), running, self._restarts)

    async def _supervise(self) -> None:
        """One Supervisor a life: each life has its own port and begins with the farewell for the last one."""
        backoff, loop = FIRST_BACKOFF_S, asyncio.get_running_loop()
        while True:
            await self._say_farewell()
            started = loop.time()
            self._supervisor = Supervisor(self._spec(), on_exit=_one_life)
            await self._supervisor.run()
            state = self.state()
            log.warning("supernode_ended state=%s message=%r", state.state, state.message)
            backoff = FIRST_BACKOFF_S if loop.time() - started > STEADY_AFTER_S else backoff
            await asyncio.sleep(backoff * random.uniform(0.8, 1.2))  # noqa: S311 (jitter, not a secret)
            backoff = min(backoff * 2, LONGEST_BACKOFF_S)
            self._restarts += 1

    async def _say_farewell(self) -> None:
        former = [int(number) for number in _CONNECTED.findall(self._read(0, MAX_LOG_BYTES))]
        if self._log_size() > MAX_LOG_BYTES:
            self._log.replace(self._log.with_suffix(".log.1"))
        self._log_start = self._log_size()
        if former:
            await say_farewell(self._address, self._ca_file, self._flower_key, former[-1])

    def _spec(self) -> ChildSpec:
        scripts = Path(sys.executable).parent
        return ChildSpec(
            name="flower-supernode",
            arguments=(str(scripts / "flower-supernode"), *self._arguments, "--port", str(free_port())),
            owner=self._owner,
            log=self._log,
            environment={
                "FLWR_HOME": str(self._home),
                "FLWR_TELEMETRY_ENABLED": "0",
                "FLWR_DISABLE_UPDATE_CHECK": "1",
                "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
                "PATH": closed_path(self._home / "bin", _programs(scripts)),
            },
        )

    def _log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _tail(self) -> str:
        return self._read(max(self._log_start, self._log_size() - TAIL_BYTES), TAIL_BYTES)

    def _read(self, start: int, limit: int) -> str:
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(start)
            return _COLOUR.sub("", file.read(limit).decode("utf-8", "replace"))


def _programs(scripts: Path) -> dict[str, tuple[str, ...]]:
    """All that Flower can start on a device, by name: its executor, and our ClientApp for any app."""
    return {
        "flower-superexec": (str(scripts / "flower-superexec"),),
        "flwr-clientapp": (sys.executable, "-m", "fedaigc_edge.federation.client_app"),
    }


def _one_life(code: int) -> bool:
    return True


def read_state(log_tail: str, running: bool, restarts: int) -> SuperNodeState:
    """Read the state from the end of Flower's log; `running` is whether the process lives."""
    refused = _REFUSED.search(log_tail)
    if refused:
        state, message = _refusal(refused.group(1))
        return SuperNodeState(state, message, restarts)
    if not running:
        return SuperNodeState("restarting", "it ended and is started again; see logs/supernode.log", restarts)
    if _CONNECTED.search(log_tail):
        return SuperNodeState("connected", "", restarts)
    return SuperNodeState("starting", "", restarts)


def _refusal(text: str) -> tuple[str, str]:
    if re.search(r"revoked|enrol|register|40[13]|[Uu]nauthorized|authenticat", text):
        return "refused", (
            "the server does not let this device's key into Flower: ask the operator whether the node was "
            "revoked; if it was, join with a new token"
        )
    if "2004" in text:
        return (
            "waiting",
            "the server still counts the former SuperNode as online: it is let in within a minute",
        )
    return "waiting", "the server's Flower does not answer: it is tried again; ask the operator if this lasts"


def node_config(daemon_socket: Path) -> str:
    """The `--node-config` text that names the daemon's socket; raises SettingsError for a quoted path."""
    text = str(daemon_socket)
    if any(character in text for character in "'\"\\\n"):
        raise SettingsError(
            f"The data folder {text!r} has a quote or backslash in its name", "", "choose another --data"
        )
    return f'socket="{text}"'


def free_port() -> int:
    """A TCP port on 127.0.0.1 that was free a moment ago."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
