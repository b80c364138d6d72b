"""Slots are bounded, the line is fair, and overload is answered at once."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from fedaigc.errors import Busy, Unavailable
from fedaigc_edge.serve.generation_slots import CallerGone, GenerationSlots


def test_no_more_run_than_there_are_slots_and_the_line_is_first_come_first_served() -> None:
    order: list[int] = []
    running = [0, 0]
    lock = threading.Lock()

    def work(number: int) -> None:
        with lock:
            order.append(number)
            running[0] += 1
            running[1] = max(running)
        time.sleep(0.01)
        with lock:
            running[0] -= 1

    async def one(slots: GenerationSlots, number: int) -> None:
        await (await slots.start(lambda: work(number), asyncio.Event()))

    async def scenario() -> None:
        slots = GenerationSlots(2, 50)
        tasks = []
        for number in range(20):
            tasks.append(asyncio.create_task(one(slots, number)))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert (slots.running, slots.waiting) == (0, 0)

    asyncio.run(scenario())
    assert running[1] == 2
    assert order == sorted(order) or all(abs(n - i) <= 1 for i, n in enumerate(order))


def test_beyond_the_line_busy_is_said_at_once_with_a_time() -> None:
    async def scenario() -> None:
        release = threading.Event()
        slots = GenerationSlots(1, 2)
        first = await slots.start(lambda: release.wait(5), asyncio.Event())
        waiting = [asyncio.create_task(slots.start(lambda: None, asyncio.Event())) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy) as caught:
            await slots.start(lambda: None, asyncio.Event())
        assert caught.value.retry_after_s >= 1
        release.set()
        await first
        for task in waiting:
            await (await task)

    asyncio.run(scenario())


def test_a_caller_who_leaves_the_line_frees_the_place_and_loses_no_slot() -> None:
    async def scenario() -> None:
        release = threading.Event()
        slots = GenerationSlots(1, 1)
        first = await slots.start(lambda: release.wait(5), asyncio.Event())
        gone = asyncio.Event()
        leaver = asyncio.create_task(slots.start(lambda: None, gone))
        await asyncio.sleep(0.01)
        gone.set()
        with pytest.raises(CallerGone):
            await leaver
        assert slots.waiting == 0
        release.set()
        await first
        await (await slots.start(lambda: None, asyncio.Event()))

    asyncio.run(scenario())


def test_leaving_or_being_cancelled_in_the_very_moment_a_slot_comes_leaks_nothing() -> None:
    async def scenario() -> None:
        slots = GenerationSlots(1, 5)
        for turn in range(40):
            release = threading.Event()
            first = await slots.start(lambda release=release: release.wait(5), asyncio.Event())  # type: ignore[misc]
            gone = asyncio.Event()
            leaver = asyncio.create_task(slots.start(lambda: None, gone))
            await asyncio.sleep(0)
            release.set()
            await first
            gone.set() if turn % 2 else leaver.cancel()
            for _ in range(turn % 5):
                await asyncio.sleep(0)
            for result in await asyncio.gather(leaver, return_exceptions=True):
                if isinstance(result, asyncio.Future):
                    await result
        await asyncio.wait_for(slots.start(lambda: None, asyncio.Event()), 2)

    asyncio.run(scenario())


def test_a_failing_work_frees_its_slot() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        slots = GenerationSlots(1, 1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await (await slots.start(fail, asyncio.Event()))

    asyncio.run(scenario())


def test_a_closed_pool_says_that_the_device_is_stopping() -> None:
    async def scenario() -> None:
        slots = GenerationSlots(1, 1)
        slots.close()
        with pytest.raises(Unavailable, match="stopping"):
            await slots.start(lambda: None, asyncio.Event())
        assert slots.running == 0

    asyncio.run(scenario())
