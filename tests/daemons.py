"""The product's own commands as child processes of the demo and of the tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

BIN = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "NO_COLOR": "1"}


class StoryFailed(Exception):
    """The story cannot go on; the message says where to look."""


@dataclass
class Daemon:
    """One long-running command with its log file."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, name: str, folder: Path, *arguments: object) -> Daemon:
        """Start one of our console scripts; its output goes to `folder/name.log`."""
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{name}.log"
        program, *rest = map(str, arguments)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(BIN / program), *rest],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        return cls(name, process, log)

    def check(self) -> None:
        """Raise StoryFailed with the log's end when the process has ended."""
        if self.process.poll() is not None:
            tail = self.log.read_text(encoding="utf-8", errors="replace")[-3000:]
            raise StoryFailed(
                f"{self.name} ended with code {self.process.returncode}; {self.log} ends:\n{tail}"
            )

    def kill(self) -> None:
        """kill -9 of the process alone, as an out-of-memory killer would."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float = 30.0) -> int:
        """SIGTERM, then SIGKILL; returns the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()


def command(*arguments: object, accept: tuple[int, ...] = (0,)) -> str:
    """Run one of our console scripts to its end; its standard output. Raises StoryFailed."""
    program, *rest = map(str, arguments)
    done = subprocess.run(
        [str(BIN / program), *rest], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode not in accept:
        raise StoryFailed(
            f"{' '.join([program, *rest])} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
    return done.stdout


def command_json(*arguments: object, accept: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The same with `--json`, parsed."""
    answer: dict[str, Any] = json.loads(command(*arguments, "--json", accept=accept))
    return answer


def wait_for(what: str, probe: Callable[[], T | None], seconds: float, *daemons: Daemon) -> T:
    """Call `probe` until it returns something; raises StoryFailed when time is up or a daemon has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for daemon in daemons:
            daemon.check()
        found = probe()
        if found is not None:
            return found
        time.sleep(0.2)
    logs = ", ".join(str(daemon.log) for daemon in daemons)
    raise StoryFailed(f"waited {seconds:.0f} s for {what} in vain; see {logs}")
