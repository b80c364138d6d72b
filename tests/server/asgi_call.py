"""Call an ASGI application with exactly the bytes that a test wants, without a client that tidies them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def call(
    app: ASGIApp,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    source: str = "192.0.2.1",
) -> Answer:
    """One request as uvicorn's h11 would hand it on."""
    return asyncio.run(call_async(app, method, target, body, headers, source))


async def call_async(
    app: ASGIApp,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    source: str = "192.0.2.1",
) -> Answer:
    raw, _, query = target.partition("?")
    named = {"host": "127.0.0.1:8444", "content-length": str(len(body)), **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": unquote(raw),
        "raw_path": raw.encode("utf-8"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [(key.lower().encode(), value.encode("latin-1")) for key, value in named.items()],
        "client": (source, 40000),
        "server": ("127.0.0.1", 8443),
        "state": {},
    }
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(
        start["status"], {key.decode(): value.decode("latin-1") for key, value in start["headers"]}, content
    )
