"""Bounded threads and a bounded line, first come first served, so that overload is said and not felt."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fedaigc.errors import Busy, Unavailable

T = TypeVar("T")

SLOTS = 2
"""Generations at one time."""
WAITING = 32
"""Requests that may wait for a slot; the next one is told to come back."""
FIRST_GUESS_S = 5.0
"""How long a generation is taken to last before one was measured."""


class CallerGone(Unavailable):
    """The caller left before anything was delivered, so there is nothing to record."""

    code = "caller_gone"


class GenerationSlots:
    """Run blocking work in at most `slots` threads, with at most `waiting` requests in line.

    Args:
        slots, waiting: at least 1; at least 0.
        now: a clock in seconds that never runs backwards.
    """

    def __init__(
        self, slots: int = SLOTS, waiting: int = WAITING, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.slots = slots
        self._most_waiting = waiting
        self._now = now
        self._free = asyncio.Semaphore(slots)
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="generation")
        self._mean_s = FIRST_GUESS_S
        self.waiting = 0
        """Requests in line now."""
        self.running = 0
        """Generations now."""

    async def start(self, work: Callable[[], T], gone: asyncio.Event) -> asyncio.Future[T]:
        """Wait in line, then start `work` in its thread; the slot is free again when `work` returns.

        Raises Busy at once when the line is full, CallerGone when `gone` is set while waiting.
        """
        if self.running + self.waiting >= self.slots + self._most_waiting:
            raise Busy(
                "This device is generating as much as it can",
                f"{self.running} requests run and {self.waiting} wait",
                "try again after the time in Retry-After",
                retry_after_s=self._wait_guess(),
            )
        self.waiting += 1
        try:
            await self._slot(gone)
        finally:
            self.waiting -= 1
        self.running += 1
        started = self._now()
        try:
            future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except RuntimeError:
            self._ended(started)
            raise Unavailable("This device is stopping", "", "try again when it is back") from None
        future.add_done_callback(lambda _: self._ended(started))
        return future

    def close(self) -> None:
        """Take no more work; what runs ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _slot(self, gone: asyncio.Event) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        wait = asyncio.ensure_future(self._free.acquire())
        leave = asyncio.ensure_future(gone.wait())
        try:
            await asyncio.wait({wait, leave}, return_when=asyncio.FIRST_COMPLETED)
            if gone.is_set():
                raise CallerGone("The caller left while waiting", "", "ask again")
        except BaseException:
            # A slot that came at the same moment goes to the next in line.
            if wait.done():
                self._free.release()
            wait.cancel()
            raise
        finally:
            leave.cancel()

    def _ended(self, started: float) -> None:
        self.running -= 1
        self._mean_s += 0.2 * (self._now() - started - self._mean_s)
        self._free.release()

    def _wait_guess(self) -> int:
        return max(1, math.ceil(self._mean_s * (self.waiting + 1) / self.slots))
