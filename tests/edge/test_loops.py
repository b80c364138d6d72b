"""Background loops start again after a failure, say its kind only, and end together."""

from __future__ import annotations

import asyncio
import logging

import pytest

from fedaigc.errors import StorageError
from fedaigc_edge.loops import Loops


def test_a_failed_loop_starts_again_and_its_text_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> int:
        runs = 0
        done = asyncio.Event()

        async def work() -> None:
            nonlocal runs
            runs += 1
            if runs == 1:
                raise RuntimeError("the secret prompt")
            if runs == 2:
                raise StorageError("disk")
            done.set()

        loops = Loops(pause_s=0.01)
        loops.begin("work", work)
        await asyncio.wait_for(done.wait(), 5)
        await loops.end()
        return runs

    with caplog.at_level(logging.DEBUG):
        assert asyncio.run(go()) == 3
    assert "RuntimeError" in caplog.text
    assert "error=storage" in caplog.text
    assert "secret" not in caplog.text


def test_ending_cancels_everything_that_still_runs() -> None:
    async def go() -> list[str]:
        ended = list[str]()

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("ended")

        loops = Loops()
        loops.begin("one", work)
        loops.begin("two", work)
        await asyncio.sleep(0.01)
        await loops.end()
        return ended

    assert asyncio.run(go()) == ["ended", "ended"]
