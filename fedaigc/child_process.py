"""Start, watch and end the processes that a daemon owns, so that none outlives it, not even after kill -9."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import psutil

from fedaigc.errors import ProcessFailed
from fedaigc.files import PRIVATE_FILE, PRIVATE_FOLDER

OWNER_VARIABLE = "FEDAIGC_OWNER"
"""Every child and grandchild carries its owner's data folder in it, so that leftovers can be found."""

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 20.0
STEADY_AFTER_S = 60.0
"""A child that ran this long is healthy: its next restart waits the first back-off again."""

GRACE_S = 8.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class ChildSpec:
    """What to run: `arguments[0]` is the program; output is appended to `log`; `nice` lowers the priority.

    What the child writes, and its log, only our user can read.
    """

    name: str
    arguments: tuple[str, ...]
    owner: Path
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


async def start_child(spec: ChildSpec) -> asyncio.subprocess.Process:
    """Start one process in its own session; raises ProcessFailed when the program cannot be run.

    Must be called from the main thread: the kernel ties the child's life to the thread that started it.
    """
    environment = {**os.environ, **spec.environment, OWNER_VARIABLE: str(spec.owner)}

    def prepare() -> None:
        _die_with_parent()
        os.umask(0o777 & ~PRIVATE_FOLDER)
        if spec.nice:
            os.nice(spec.nice)

    spec.log.parent.mkdir(parents=True, exist_ok=True)
    with _private_log(spec.log) as log:
        try:
            return await asyncio.create_subprocess_exec(
                *spec.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
                preexec_fn=prepare,
            )
        except OSError as error:
            raise ProcessFailed(
                f"Cannot start {spec.name}", error.strerror or str(error), "install the package's extra again"
            ) from error


def _private_log(path: Path) -> BinaryIO:
    log = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE), "ab")
    os.fchmod(log.fileno(), PRIVATE_FILE)
    return log


async def stop_child(process: asyncio.subprocess.Process, grace_s: float = GRACE_S) -> None:
    """SIGTERM to the child's whole group, then SIGKILL after `grace_s`; returns when it is gone."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), grace_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


class Supervisor:
    """Keep one child running: restart it with jittered, bounded back-off until cancelled.

    `on_exit` is told every exit code and may return True to give up (for exits that a restart cannot mend).
    """

    def __init__(self, spec: ChildSpec, on_exit: Callable[[int], bool] | None = None) -> None:
        self.spec = spec
        self.restarts = 0
        self.process: asyncio.subprocess.Process | None = None
        self._on_exit = on_exit

    @property
    def running(self) -> bool:
        """Whether the child lives right now."""
        return self.process is not None and self.process.returncode is None

    async def run(self) -> None:
        """Supervise until cancelled (then the child is ended) or until `on_exit` gives up."""
        backoff = FIRST_BACKOFF_S
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            self.process = await start_child(self.spec)
            try:
                code = await self.process.wait()
            finally:
                await asyncio.shield(stop_child(self.process))
            if self._on_exit is not None and self._on_exit(code):
                return
            if loop.time() - started > STEADY_AFTER_S:
                backoff = FIRST_BACKOFF_S
            await asyncio.sleep(backoff * random.uniform(0.8, 1.2))  # noqa: S311 (jitter, not a secret)
            backoff = min(backoff * 2, LONGEST_BACKOFF_S)
            self.restarts += 1


def end_leftovers(owner: Path) -> int:
    """Kill what an earlier, killed daemon of this folder left running; returns how many processes.

    Call it while holding the folder's lock: then no living daemon owns them.
    """
    ended = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(OWNER_VARIABLE) == str(owner):
                process.kill()
                ended += 1
    return ended
