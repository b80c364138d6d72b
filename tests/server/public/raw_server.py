"""The real listener in front of an application, and raw bytes sent to it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from fedaigc_server.listeners import Listener, bind_tcp


@contextmanager
def listening(app: ASGIApp) -> Iterator[int]:
    """Serve `app` on a loopback port, without TLS, as the service serves it."""
    bound = bind_tcp("127.0.0.1", 0, "port")
    listener = Listener(app, bound)
    thread = threading.Thread(target=lambda: asyncio.run(listener.serve()), daemon=True)
    thread.start()
    try:
        yield bound.getsockname()[1]
    finally:
        listener.stop()
        thread.join(10)


def exchange(port: int, data: bytes) -> bytes:
    """Send `data`, close our side, and read all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(data)
        answer = b""
        while b"\r\n\r\n" not in answer:
            chunk = line.recv(65536)
            if not chunk:
                break
            answer += chunk
        return answer


def status(answer: bytes) -> int:
    """The status of the first answer."""
    return int(answer.split(b" ", 2)[1])
