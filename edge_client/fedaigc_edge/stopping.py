"""Stop on SIGTERM and SIGINT: the first asks for an orderly stop, the second for a quick one."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger("fedaigc.edge")


def _nothing() -> None:
    """Before a part runs there is none to hurry."""


class StopRequest:
    """Whether the daemon should stop, and how it is asked to hurry."""

    def __init__(self, hurry: Callable[[], None] = _nothing) -> None:
        self._asked = asyncio.Event()
        self._hurry = hurry

    def hurry_with(self, hurry: Callable[[], None]) -> None:
        """What a second request calls, once there is something that can be hurried."""
        self._hurry = hurry

    def listen(self) -> None:
        """Take over the two signals; must run in the main thread's event loop."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.ask, number.name)

    def ask(self, why: str) -> None:
        """Ask to stop; asking again means quickly."""
        if self._asked.is_set():
            log.warning("stop_hurried why=%s", why)
            self._hurry()
            return
        log.info("stopping why=%s", why)
        self._asked.set()

    async def wait(self) -> None:
        """Return when somebody asked."""
        await self._asked.wait()

    async def unless(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do `work` unless a stop is asked for meanwhile: True when it was done; raises what it raises."""
        if self._asked.is_set():
            work.close()
            return False
        doing, waiting = asyncio.ensure_future(work), asyncio.ensure_future(self._asked.wait())
        await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            waiting.cancel()
            doing.result()
            return True
        doing.cancel()
        return False
