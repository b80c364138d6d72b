"""A real `fedaigc-server start` and real SuperNodes as child processes, on free ports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaigc_server.federation.processes import free_port

BIN = Path(sys.executable).parent
START_S = 90.0


def environment(**more: str) -> dict[str, str]:
    """Ours, with the packages importable in every child and Flower quiet."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        **more,
    }


@dataclass
class LiveServer:
    """One server; `start` may be called again after `kill`, on the same port."""

    root: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.root / "server"

    @property
    def ca(self) -> Path:
        return self.data / "keys" / "ca.crt"

    def start(self) -> None:
        self.launch()
        wait_for(lambda: self.run("status", check=False).returncode == 0, START_S)

    def launch(self) -> None:
        with (self.root / "server.out").open("ab") as out:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "fedaigc_server", "start", "--data", str(self.data)),
                    *("--officer", str(self.root / "officer"), "--host", "127.0.0.1"),
                    *("--port", str(self.port), "--admin-port", "0", "--tap", str(self.root / "tap")),
                ],
                env=environment(),
                stdout=out,
                stderr=out,
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "fedaigc_server", *arguments, "--data", str(self.data), "--json"],
            env=environment(),
            capture_output=True,
            text=True,
            check=check,
            timeout=300,
        )

    def json(self, *arguments: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.run(*arguments).stdout)
        return answer


@contextmanager
def live_server(root: Path) -> Iterator[LiveServer]:
    server = LiveServer(root, free_port())
    server.start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.stop()


@contextmanager
def supernode(root: Path, name: str, server: LiveServer, key: Path, socket: Path) -> Iterator[Path]:
    """A stock `flower-supernode`; yields its log file."""
    log = root / f"{name}.supernode.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [
                str(BIN / "flower-supernode"),
                *("--superlink", f"127.0.0.1:{server.port}", "--root-certificates", str(server.ca)),
                *("--auth-supernode-private-key", str(key), "--host", "127.0.0.1"),
                *("--port", str(free_port()), "--node-config", f'socket="{socket}"'),
            ],
            env=environment(FLWR_HOME=str(root / f"{name}.flwr"), FLWR_SUPEREXEC_TASK_POLL_INTERVAL="0.3"),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(done: Callable[[], bool], seconds: float) -> None:
    """Return when `done`; fails the test when time is up."""
    ends = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < ends, "time is up"
        time.sleep(0.3)
