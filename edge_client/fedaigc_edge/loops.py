"""Background work that goes on until the device stops, and is started again when it fails unexpectedly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fedaigc.errors import FedaigcError

RESTART_PAUSE_S = 5.0

log = logging.getLogger("fedaigc.edge")


class Loops:
    """The device's background tasks. `pause_s` is waited before a failed one starts again."""

    def __init__(self, pause_s: float = RESTART_PAUSE_S) -> None:
        self._pause_s = pause_s
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `work` to its end; when it raises, log the error's kind (never its text) and run it again."""
        task = asyncio.create_task(self._lasting(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Cancel all of them; returns when they are gone."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _lasting(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
                return
            except Exception as error:
                code = error.code if isinstance(error, FedaigcError) else type(error).__name__
                log.error("loop_failed name=%s error=%s", name, code)
            await asyncio.sleep(self._pause_s)
