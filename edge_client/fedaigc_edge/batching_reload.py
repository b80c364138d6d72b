"""Read the settings file's `[batching]` table again while the device serves."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from fedaigc.errors import SettingsError
from fedaigc.files import file_stamp
from fedaigc_edge.engine.batching_window import BatchingWindow, WindowSettings
from fedaigc_edge.settings import edge_settings

POLL_S = 2.0

log = logging.getLogger("fedaigc.edge")


class BatchingReload:
    """Hands over the table whenever the file changes; a file that cannot be used changes nothing.

    Args:
        path: the settings file.
        read: the table as the file, the environment and the defaults give it; raises SettingsError.
        apply: takes the new values.
    """

    def __init__(
        self, path: Path, read: Callable[[], WindowSettings], apply: Callable[[WindowSettings], None]
    ) -> None:
        self._path = path
        self._read = read
        self._apply = apply
        self._seen = file_stamp(path)

    def reload(self) -> bool:
        """Take the table if the file has changed since it was last looked at; whether it was taken."""
        stamp = file_stamp(self._path)
        if stamp == self._seen or stamp is None:
            return False
        self._seen = stamp
        try:
            settings = self._read()
        except SettingsError as error:
            log.warning("batching=refused what=%r next=%r", error.what, error.do_next)
            return False
        self._apply(settings)
        log.info("batching=reloaded window_ms=%g max_batch=%d", settings.window_ms, settings.max_batch)
        return True

    async def watch(self, poll_s: float = POLL_S) -> None:
        """Look at the file every `poll_s` seconds until cancelled."""
        while True:
            await asyncio.sleep(poll_s)
            await asyncio.to_thread(self.reload)


def batching_reload(path: Path, window: BatchingWindow) -> BatchingReload:
    """Watch `path` for `window`; the environment still wins over the file."""
    return BatchingReload(path, lambda: edge_settings({}, os.environ, path).batching, window.update)
