"""Start the server's parts in order, watch them, and stop them in the opposite order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anyio import to_thread

from fedaigc.child_process import end_leftovers
from fedaigc.errors import FedaigcError
from fedaigc.files import folder_lock, private_folder, write_private
from fedaigc_server.assembly import Assembly
from fedaigc_server.certificates import ensure_certificates
from fedaigc_server.clock import Clock
from fedaigc_server.federation.processes import FlowerProcesses, reconcile_until_done
from fedaigc_server.federation.superlink import QUIET
from fedaigc_server.identity import ServerIdentity, load_identity, write_officer_file
from fedaigc_server.listeners import Listener, bind_tcp, bind_unix
from fedaigc_server.public_names import settle_names
from fedaigc_server.settings import ServerSettings
from fedaigc_server.stores import Stores, open_stores

log = logging.getLogger(__name__)

ADMIN_HOST = "127.0.0.1"
RENEWAL_CHECK_S = 24 * 3600.0


@dataclass(frozen=True)
class Ready:
    """What a started server says of itself; `address` is the `host:port` by which devices reach it."""

    address: str
    admin_url: str
    ca_sha256: str
    log_vkey: str


async def run_service(settings: ServerSettings, tap: Path | None, on_ready: Callable[[Ready], None]) -> None:
    """Serve until SIGTERM or SIGINT, then end every child and return. Call it in the main thread.

    While it starts as well: what runs by then is ended, and `on_ready` is not called.
    Raises FolderInUse when another server holds the folder, ProcessFailed when a port is taken or Flower does
    not start, IdentityError, StorageError or VerificationFailed when what is stored cannot be trusted.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Flower is also imported in this process, for its Control API: that must not phone home either.
    os.environ.update(QUIET, FLWR_HOME=str(settings.data / "flower" / "home" / "service"))
    with folder_lock(settings.data):
        end_leftovers(settings.data)
        async with contextlib.AsyncExitStack() as stack:
            service = _Service(settings, tap, Clock(time.time), stack)
            ready = await _unless_stopped(service.start(), stop)
            if ready is not None:
                on_ready(ready)
                await service.serve(stop)
            log.info("event=stopping")


async def _unless_stopped(work: Coroutine[Any, Any, Ready], stop: asyncio.Event) -> Ready | None:
    """What `work` returns or raises; None, with `work` ended, when `stop` is set before."""
    starting, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        return starting.result()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    return None


class _Service:
    """One run of the server; `stack` undoes each step of the start in the opposite order."""

    def __init__(
        self, settings: ServerSettings, tap: Path | None, clock: Clock, stack: contextlib.AsyncExitStack
    ) -> None:
        self._settings = settings
        self._tap = tap
        self._clock = clock
        self._stack = stack
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> Ready:
        """Bind first, so that a taken port is told before anything else runs; listen to devices last."""
        settings, data = self._settings, self._settings.data
        identity = load_identity(data, settings.officer)
        named = settle_names(data / "keys", settings.public_names)
        settings = replace(settings, public_names=named.current)
        self._names = (*settings.names(), *named.former)
        self._certificates, _ = ensure_certificates(data / "keys", self._names, self._clock.utc())
        public = self._bound(bind_tcp(settings.host, settings.port, "port"))
        admin = self._bound(bind_tcp(ADMIN_HOST, settings.admin_port, "admin-port"))
        rounds, _ = bind_unix(private_folder(data / "run") / "server.sock")
        self._bound(rounds)
        stores = await self._opened(data, identity)
        self._flower = FlowerProcesses(data, self._certificates, self._flower_died, self._clock)
        address = settings.token_address(public.getsockname()[1])
        assembly = Assembly(
            settings,
            identity,
            self._certificates,
            stores,
            self._flower,
            address,
            self._tap,
            self._clock,
        )
        self._parts = assembly.parts()
        self._listen(Listener(self._parts.rounds, rounds))
        self._stack.push_async_callback(self._flower.stop)
        await self._flower.start()
        await to_thread.run_sync(self._parts.watch.forget_runs)
        self._background(self._parts.watch.run())
        self._listen(Listener(self._parts.admin, admin))
        self._public = Listener(self._parts.public, public, self._certificates, settings.connections)
        self._stack.push_async_callback(self._parts.guard.aclose)
        self._listen(self._public)
        self._background(self._reconcile())
        self._background(self._renew())
        ready = Ready(
            address,
            f"http://{ADMIN_HOST}:{admin.getsockname()[1]}",
            self._certificates.ca_sha256,
            stores.signer.vkey(),
        )
        write_officer_file(settings.officer, ready.admin_url, ready.log_vkey, self._certificates.ca)
        self._announce(ready, public.getsockname()[1])
        return ready

    async def serve(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set; a part that ended by itself raises what ended it."""
        stopping = asyncio.create_task(stop.wait())
        watched: set[asyncio.Task[Any]] = {stopping, *self._tasks, *self._flower.tasks}
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in done - {stopping}:
            task.result()

    async def _opened(self, data: Path, identity: ServerIdentity) -> Stores:
        opening = asyncio.create_task(to_thread.run_sync(open_stores, data, identity))
        try:
            stores = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # A thread cannot be cut short: the folder stays locked until it has let go of the files.
            with contextlib.suppress(FedaigcError):
                (await opening).close()
            raise
        self._stack.callback(stores.close)
        return stores

    def _bound(self, bound: socket.socket) -> socket.socket:
        self._stack.callback(bound.close)
        return bound

    def _listen(self, listener: Listener) -> None:
        task = asyncio.create_task(listener.serve())
        self._tasks.append(task)

        async def end() -> None:
            listener.stop()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.append(task)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)

    def _flower_died(self) -> None:
        self._parts.watch.wake()

    async def _reconcile(self) -> None:
        while True:
            self._flower.emptied.clear()
            await reconcile_until_done(self._parts.enrolment.reconcile)
            await self._flower.emptied.wait()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL_CHECK_S)
            files, changed = await to_thread.run_sync(
                ensure_certificates, self._settings.data / "keys", self._names, self._clock.utc()
            )
            if changed:
                self._public.renew(files)
                await self._flower.restart_superlink()
                log.info("event=certificate_renewed")

    def _announce(self, ready: Ready, port: int) -> None:
        run = self._settings.data / "run"
        write_private(run / "admin.json", json.dumps({"url": ready.admin_url}).encode())
        record = {
            "url": f"https://{ready.address}",
            "address": ready.address,
            "port": port,
            "ca_sha256": ready.ca_sha256,
        }
        write_private(run / "public.json", json.dumps(record).encode())
        for name in ("admin.json", "public.json"):
            self._stack.callback((run / name).unlink, missing_ok=True)
