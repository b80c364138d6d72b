"""Stopping: the first signal asks, the second hurries, and work that still begins is given up."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from fedaigc_edge import node
from fedaigc_edge.settings import EdgeSettings
from fedaigc_edge.stopping import SIGNALS, StopRequest
from tests.edge.enrolled import enrolled


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_asks_once_and_hurries_when_repeated(number: signal.Signals) -> None:
    async def go() -> list[str]:
        hurried = list[str]()
        stop = StopRequest(lambda: hurried.append("hurried"))
        stop.listen()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.wait(), 5)
        assert hurried == []
        os.kill(os.getpid(), number)
        await asyncio.sleep(0.05)
        return hurried

    assert asyncio.run(go()) == ["hurried"]


def test_work_is_done_unless_a_stop_comes_first() -> None:
    async def go() -> tuple[bool, bool]:
        stop = StopRequest(lambda: None)
        done = await stop.unless(asyncio.sleep(0.01))
        slow = asyncio.create_task(stop.unless(asyncio.sleep(60)))
        await asyncio.sleep(0.01)
        stop.ask("test")
        return done, await slow

    assert asyncio.run(go()) == (True, False)


def test_what_the_work_raises_is_raised() -> None:
    async def work() -> None:
        raise LookupError

    async def go() -> None:
        await StopRequest(lambda: None).unless(work())

    with pytest.raises(LookupError):
        asyncio.run(go())


def test_work_that_was_not_begun_before_a_stop_is_not_begun(recwarn: pytest.WarningsRecorder) -> None:
    begun = list[str]()

    async def work() -> None:
        begun.append("begun")

    async def go() -> bool:
        stop = StopRequest()
        stop.ask("test")
        stop.ask("again, with nothing to hurry")
        return await stop.unless(work())

    assert (asyncio.run(go()), begun, list(recwarn)) == (False, [], [])


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_device_is_being_built_is_kept_until_it_can_stop_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    stopped = list[str]()

    class SlowDevice:
        def __init__(self, *given: object) -> None:
            self.stop = next(item for item in given if isinstance(item, StopRequest))
            os.kill(os.getpid(), number)
            time.sleep(0.05)

        async def run(self) -> None:
            await asyncio.wait_for(self.stop.wait(), 5)
            stopped.append("in order")

    monkeypatch.setattr(node, "Device", SlowDevice)
    enrolled(tmp_path)
    node.run_device(EdgeSettings(data=tmp_path))
    assert stopped == ["in order"]
