from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fedaigc.child_process import (
    OWNER_VARIABLE,
    ChildSpec,
    Supervisor,
    end_leftovers,
    start_child,
    stop_child,
)
from fedaigc.errors import ProcessFailed

SLEEP = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")


def _spec(folder: Path, arguments: tuple[str, ...] = SLEEP) -> ChildSpec:
    return ChildSpec("sleeper", arguments, folder, folder / "logs" / "sleeper.log")


async def _until(condition: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.02)


def test_a_child_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    async def story() -> None:
        code = f"import subprocess, sys; subprocess.run({list(SLEEP)!r})"
        child = await start_child(_spec(tmp_path, (sys.executable, "-c", code)))
        await _until(lambda: psutil.Process(child.pid).children())
        (grandchild,) = psutil.Process(child.pid).children()
        await stop_child(child, grace_s=5)
        await _until(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)

    asyncio.run(story())


def test_a_killed_child_is_started_again_and_cancelling_ends_it(tmp_path: Path) -> None:
    async def story() -> None:
        supervisor = Supervisor(_spec(tmp_path))
        task = asyncio.create_task(supervisor.run())
        await _until(lambda: supervisor.running)
        assert supervisor.process is not None
        first = supervisor.process.pid
        os.kill(first, signal.SIGKILL)
        await _until(lambda: supervisor.restarts == 1 and supervisor.running)
        second = supervisor.process.pid
        assert second != first
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert not psutil.pid_exists(second)

    asyncio.run(story())


def test_an_exit_that_no_restart_can_mend_ends_the_supervision(tmp_path: Path) -> None:
    codes: list[int] = []

    def give_up(code: int) -> bool:
        codes.append(code)
        return True

    spec = _spec(tmp_path, (sys.executable, "-c", "raise SystemExit(7)"))
    asyncio.run(asyncio.wait_for(Supervisor(spec, give_up).run(), 20))
    assert codes == [7]


def test_a_program_that_does_not_exist_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="extra"):
        asyncio.run(start_child(_spec(tmp_path, ("/nonexistent/program",))))


def test_no_child_outlives_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "import asyncio, pathlib, sys\n"
        "from fedaigc.child_process import ChildSpec, start_child\n"
        "async def main():\n"
        "    folder = pathlib.Path(sys.argv[1])\n"
        f"    child = await start_child(ChildSpec('s', {SLEEP!r}, folder, folder / 'log'))\n"
        "    print(child.pid, flush=True)\n"
        "    await child.wait()\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_leftovers_of_this_folder_are_ended_and_others_spared(tmp_path: Path) -> None:
    ours, theirs = (
        subprocess.Popen(SLEEP, env={**os.environ, OWNER_VARIABLE: str(owner)}, stdout=subprocess.PIPE)
        for owner in (tmp_path / "a", tmp_path / "b")
    )
    try:
        for process in (ours, theirs):
            assert process.stdout is not None
            process.stdout.readline()
        assert end_leftovers(tmp_path / "a") == 1
        assert ours.wait(timeout=10) == -signal.SIGKILL
        assert theirs.poll() is None
    finally:
        theirs.kill()
        theirs.wait()
        for process in (ours, theirs):
            if process.stdout is not None:
                process.stdout.close()


def test_what_a_child_writes_and_its_log_only_our_user_can_read(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "sleeper.log"
    log.parent.mkdir()
    log.touch(0o644)
    code = f"open({str(tmp_path / 'made')!r}, 'w'); import os; os.mkdir({str(tmp_path / 'folder')!r})"

    async def story() -> None:
        child = await start_child(_spec(tmp_path, (sys.executable, "-c", code)))
        assert await child.wait() == 0

    asyncio.run(story())
    modes = [path.stat().st_mode & 0o777 for path in (log, tmp_path / "made", tmp_path / "folder")]
    assert modes == [0o600, 0o600, 0o700]
