"""A server that plays a fixed stream, for tests of the own client of the benchmarks."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """One server-sent event of a chat completion."""
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n"


def framed(pieces: Sequence[bytes]) -> bytes:
    """The pieces as chunks of HTTP/1.1's chunked coding, end mark included."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@contextmanager
def playing(body: bytes, status: str = "200 OK") -> Iterator[int]:
    """A server on a free port that answers every request with `body`; gives the port."""
    loop = asyncio.new_event_loop()
    ports: list[int] = []
    ready = threading.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        writer.write(f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()

    def run() -> None:
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
