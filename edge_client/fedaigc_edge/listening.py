"""Open the daemon's two sockets and serve an ASGI application on one, without taking over the signals."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

from fedaigc.errors import SettingsError, StorageError

LOOPBACK = "127.0.0.1"
MAX_SOCKET_PATH = 107
"""The kernel's limit (sun_path without its final NUL)."""
BACKLOG = 256


def loopback_socket(port: int) -> socket.socket:
    """Listen on 127.0.0.1; 0 takes a free port. Raises SettingsError when the port is taken."""
    # The protocol is named so that asyncio sets TCP_NODELAY on connections: without it a peer's delayed ACK
    # holds back every second write, 40 ms an answer and more a stream.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Restarting at once is common, and the old connections' TIME_WAIT must not forbid it.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            taken = error.errno == errno.EADDRINUSE
            raise SettingsError(
                f"Port {port} on {LOOPBACK} {'is taken' if taken else 'may not be opened by this user'}",
                "another program listens there" if taken else "ports below 1024 belong to root",
                "choose another: --port N, or --port 0 for a free one",
            ) from error
        raise StorageError(f"Cannot listen on {LOOPBACK}:{port}", error.strerror or "", "") from error
    listener.setblocking(False)
    return listener


def private_unix_socket(path: Path) -> socket.socket:
    """Listen on a unix socket of mode 0600; an old socket file is replaced. Raises SettingsError."""
    if len(str(path).encode()) > MAX_SOCKET_PATH:
        raise SettingsError(
            f"The data folder's name is too long: {path}",
            f"a unix socket's path may have {MAX_SOCKET_PATH} bytes",
            "choose a shorter --data",
        )
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        # Before listen(), so nobody connects in between; the folder is 0700 as well.
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise StorageError(f"Cannot open {path}", error.strerror or "", "check the data folder") from error
    listener.setblocking(False)
    return listener


class _WithoutSignals(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Listening:
    """One application on one socket, from `start` to `stop`."""

    def __init__(self, app: Any, listener: socket.socket, drain_s: float) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=max(1, round(drain_s)),
        )
        self._server = _WithoutSignals(config)
        self._listener = listener
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The TCP port that is listened on."""
        return int(self._listener.getsockname()[1])

    async def start(self) -> None:
        """Serve; returns when connections are accepted. Raises StorageError when the application fails."""
        self._task = asyncio.create_task(self._server.serve([self._listener]), name="listening")
        while not self._server.started and not self._task.done():  # noqa: ASYNC110 (uvicorn has no event)
            await asyncio.sleep(0.01)
        if self._task.done() and not self._server.started:
            raise StorageError("The local API did not start", "see logs/edge.log", "run it again")

    async def stop(self) -> None:
        """Accept nothing new, let running answers finish for the drain time, then cut them."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task

    def hurry(self) -> None:
        """Cut running answers now instead of at the end of the drain time."""
        self._server.should_exit = True
        self._server.force_exit = True
