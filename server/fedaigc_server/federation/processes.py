"""Flower's two server processes under supervision, and when they are ready."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from anyio import to_thread

from fedaigc.child_process import Supervisor, stop_child
from fedaigc.errors import FedaigcError, ProcessFailed, Unavailable
from fedaigc_server.certificates import CertificateFiles
from fedaigc_server.clock import Clock
from fedaigc_server.federation.superlink import LOOPBACK, FlowerFolders, superexec_spec, superlink_spec
from fedaigc_server.federation.superlink_api import SuperLinkApi
from fedaigc_server.federation.superlink_db import SuperLinkDatabase
from fedaigc_server.identity import superexec_secret

log = logging.getLogger(__name__)

READY_S = 90.0
LOOK_EVERY_S = 0.2


class FlowerProcesses:
    """SuperLink on a free loopback port and SuperExec beside it; both restarted when they die."""

    def __init__(
        self, data: Path, certificates: CertificateFiles, on_death: Callable[[], None], clock: Clock
    ) -> None:
        folders = FlowerFolders(data)
        secret = superexec_secret(folders.root)
        self.port = free_port()
        self.url = f"https://{LOOPBACK}:{self.port}"
        self.api = SuperLinkApi(f"{LOOPBACK}:{self.port}", str(certificates.ca))
        self._on_death = on_death
        self._superlink = Supervisor(
            superlink_spec(folders, self.port, certificates, secret), self._superlink_died
        )
        self._database = SuperLinkDatabase(folders.database, self._superlink.spec.log, clock)
        self.emptied = asyncio.Event()
        """Set when SuperLink lost its database: whoever may connect has to be registered again."""
        self._superexec = Supervisor(superexec_spec(folders, self.port, certificates, secret), self._died)
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start both; returns when SuperLink answers. Call it in the main thread.

        Raises ProcessFailed, or StorageError when a damaged database cannot be set aside.
        """
        await to_thread.run_sync(self._database.mend_before_start)
        self.tasks = [
            asyncio.create_task(supervisor.run(), name=supervisor.spec.name)
            for supervisor in (self._superlink, self._superexec)
        ]
        loop = asyncio.get_running_loop()
        ends = loop.time() + READY_S
        while loop.time() < ends:
            for task in self.tasks:
                if task.done():
                    await task  # A program that cannot be started at all raises here.
            with contextlib.suppress(Unavailable):
                await to_thread.run_sync(self.api.registered)
                return
            await asyncio.sleep(LOOK_EVERY_S)
        raise ProcessFailed(
            "Flower's SuperLink did not start",
            f"it does not answer after {READY_S:.0f} s",
            f"read {self._superlink.spec.log}",
        )

    async def stop(self) -> None:
        """End both and whatever they started; returns when they are gone."""
        # SuperLink waits at its end for idle connections to be closed, so ours go first.
        await to_thread.run_sync(self.api.close)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def restart_superlink(self) -> None:
        """Let SuperLink read a renewed certificate; a running round survives it."""
        if self._superlink.process is not None:
            await stop_child(self._superlink.process)

    def status(self) -> dict[str, object]:
        """Whether each lives, and how often it had to be restarted."""
        return {
            supervisor.spec.name: {"running": supervisor.running, "restarts": supervisor.restarts}
            for supervisor in (self._superlink, self._superexec)
        }

    def _superlink_died(self, code: int) -> bool:
        if self._database.mend_after_death():
            self.emptied.set()
        return self._died(code)

    def _died(self, code: int) -> bool:
        log.warning("event=flower_process_ended code=%d", code)
        self._on_death()
        return False


async def reconcile_until_done(reconcile: Callable[[], int]) -> None:
    """Bring Flower's list of nodes in line with the registry, trying again while Flower restarts."""
    while True:
        try:
            changes = await to_thread.run_sync(reconcile)
        except FedaigcError as error:
            log.warning("event=reconcile_failed code=%s", error.code)
            await asyncio.sleep(2.0)
        else:
            log.info("event=reconciled changes=%d", changes)
            return


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
