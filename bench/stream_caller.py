"""One streamed chat completion over a bare socket: a caller shares the servers' core, so it costs little."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.failure import BenchFailed

REPLY_SECONDS = 300.0
_PATH = "/v1/chat/completions"


@dataclass
class Heard:
    """One answer as its caller saw it; times are seconds of one clock that never runs backwards."""

    started: float
    first: float = 0.0
    """When the first text came."""
    last: float = 0.0
    """When the last text came."""
    ended: float = 0.0
    chunks: int = 0
    """How many events carried text."""
    finish: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    """The server's own account of the time, stage by stage, where it gives one."""

    @property
    def ttft_s(self) -> float:
        """Time to first token, seconds."""
        return self.first - self.started

    def take(self, event: Mapping[str, Any]) -> None:
        """Note one event of the stream."""
        if "error" in event:
            raise BenchFailed(f"an error came in the stream: {event['error'].get('code')}")
        now = time.perf_counter()
        for choice in event.get("choices", ()):
            if choice["delta"].get("content"):
                self.first = self.first or now
                self.last = now
                self.chunks += 1
            self.finish = choice.get("finish_reason") or self.finish
        self.usage = event.get("usage") or self.usage
        self.timings_ms = (event.get("fedaigc") or {}).get("timings_ms") or self.timings_ms


async def ask(port: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Heard:
    """Send one streamed request to 127.0.0.1 and listen to its end. Raises BenchFailed unless it is whole."""
    payload = json.dumps({**body, "stream": True}).encode()
    lines = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/json", **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    request = f"POST {_PATH} HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {len(payload)}\r\n\r\n"
    heard = Heard(time.perf_counter())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request.encode("ascii") + payload)
        async with asyncio.timeout(REPLY_SECONDS):
            await _listen(reader, heard)
    except (OSError, EOFError, TimeoutError, ValueError) as error:
        raise BenchFailed(f"the stream broke: {type(error).__name__} {error}") from error
    finally:
        writer.close()
    heard.ended = time.perf_counter()
    return heard


async def _listen(reader: asyncio.StreamReader, heard: Heard) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    if " 200 " not in head.split("\r\n", 1)[0]:
        raise BenchFailed(f"the server answered {head.split(chr(13), 1)[0]}: {await _reason(reader)}")
    rest = b""
    while size := int(await reader.readline(), 16):
        rest += (await reader.readexactly(size + 2))[:-2]
        *lines, rest = rest.split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                heard.take(json.loads(line[6:]))
    if not heard.finish:
        raise BenchFailed("the stream ended without a finish_reason")


async def _reason(reader: asyncio.StreamReader) -> str:
    text = (await reader.read(4096)).decode("utf-8", "replace")
    try:
        error = json.loads(text[text.index("{") : text.rindex("}") + 1])["error"]
        return f"{error.get('code')} {error.get('param')}"
    except (ValueError, KeyError, TypeError):
        return "no reason that could be read"
