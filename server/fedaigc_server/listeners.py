"""Bind the server's sockets, saying plainly what is wrong when that fails, and serve applications on them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import psutil
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from fedaigc.errors import ProcessFailed, SettingsError
from fedaigc.files import private_folder
from fedaigc_server.certificates import CertificateFiles

BACKLOG = 512
MAX_SOCKET_PATH = 100
"""A unix socket's path fits in 107 bytes on Linux."""

GRACEFUL_S = 3
KEEP_ALIVE_S = 30
MAX_HEAD_BYTES = 32 << 10
HEAD_TIMEOUT_S = 20.0
"""A connection whose request's head is not complete by then is closed, so that slow ones cannot pile up."""


class Listener:
    """One uvicorn server on one bound socket.

    h11 parses, not httptools: it bounds the size of a request's head, and it hands on the target as it came.
    """

    def __init__(
        self,
        app: ASGIApp,
        bound: socket.socket,
        tls: CertificateFiles | None = None,
        connections: int | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=_TimedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACEFUL_S,
            limit_concurrency=connections,
            ssl_certfile=str(tls.certificate) if tls else None,
            ssl_keyfile=str(tls.key) if tls else None,
        )
        self._server = _Server(config)
        self._bound = bound

    async def serve(self) -> None:
        """Serve until `stop`; requests in flight get a few seconds to end."""
        try:
            await self._server.serve(sockets=[self._bound])
        finally:
            self._bound.close()

    def stop(self) -> None:
        """Ask the listener to end."""
        self._server.should_exit = True

    def renew(self, tls: CertificateFiles) -> None:
        """Use a renewed certificate for new connections."""
        if self._server.config.ssl is not None:
            self._server.config.ssl.load_cert_chain(tls.certificate, tls.key)


class _TimedProtocol(H11Protocol):
    """uvicorn's h11 protocol, which by itself waits for ever for the end of a request's head."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._idle():
            self._expect_head()
        super().data_received(data)
        if not self._idle():
            self._head_came()

    def on_response_complete(self) -> None:
        # From here uvicorn's own keep-alive timer runs, until the next byte comes.
        self._head_came()
        super().on_response_complete()

    def _idle(self) -> bool:
        cycle = cast(RequestResponseCycle | None, self.cycle)
        return cycle is None or cycle.response_complete

    def _expect_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.close)

    def _head_came(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the service's, which has more to stop than one listener."""
        yield


def bind_tcp(host: str, port: int, setting: str) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises ProcessFailed telling what holds a taken port, SettingsError for an address that is not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named so that asyncio sets TCP_NODELAY on connections: without it a peer's delayed ACK
    # holds back every second write for 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise ProcessFailed(
                f"Port {port} is taken",
                f"{_holder(port)} listens on it",
                f"stop that process, or choose another port with --{setting}",
            ) from error
        raise SettingsError(
            f"Cannot listen on {host}:{port}", error.strerror or "", f"check --host and --{setting}"
        ) from error
    return bound


def unix_path(path: Path) -> Path:
    """Where the unix socket for `path` lies: there, or in a private temporary folder if that is too long.

    Raises SettingsError when that folder is somebody else's.
    """
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    short = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    folder = private_folder(Path(tempfile.gettempdir()) / f"fedaigc-{os.getuid()}-{short}")
    if folder.stat().st_uid != os.getuid():
        raise SettingsError(f"{folder} belongs to another user", "", "choose a shorter --data path")
    return folder / path.name


def bind_unix(path: Path) -> tuple[socket.socket, Path]:
    """A listening unix socket that only our user can open, and where it is (`unix_path`)."""
    path = unix_path(path)
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o177)
    try:
        bound.bind(str(path))
    finally:
        os.umask(old)
    bound.listen(BACKLOG)
    return bound, path


def _holder(port: int) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            at = connection.laddr
            if connection.status == psutil.CONN_LISTEN and at and at.port == port and connection.pid:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    return "another process"
