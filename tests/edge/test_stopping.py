"""Stopping: the first signal asks, the second hurries, and work that still begins is given up."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from fedaigc_edge.stopping import SIGNALS, StopRequest


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
