"""An auditor's tool: keep every byte that devices send to the public port, and every answer, in plain files.

Off unless `--tap DIR` is given. `bodies.tap` holds the raw bytes, so that a search for a text needs no
parser; `index.jsonl` says which bytes belong to which request.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from anyio import to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedaigc.files import PRIVATE_FILE, private_folder


class Tap:
    """An ASGI application around another that copies what passes, each request whole when it has ended."""

    def __init__(self, app: ASGIApp, folder: Path) -> None:
        self._app = app
        private_folder(folder)
        self._bodies, self._index = folder / "bodies.tap", folder / "index.jsonl"
        for path in (self._bodies, self._index):
            path.touch(PRIVATE_FILE)
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request through the inner application and append its copy."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received, sent, status = bytearray(), bytearray(), 0

        async def tapped_receive() -> Message:
            message = await receive()
            received.extend(message.get("body", b""))
            return message

        async def tapped_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            sent.extend(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, tapped_receive, tapped_send)
        finally:
            await to_thread.run_sync(self._append, scope, bytes(received), bytes(sent), status)

    def _append(self, scope: Scope, received: bytes, sent: bytes, status: int) -> None:
        head = b"\n".join(
            [
                scope["method"].encode() + b" " + scope.get("raw_path", b"") + b"?" + scope["query_string"],
                *(name + b": " + value for name, value in scope["headers"]),
                b"\n",
            ]
        )
        client = scope.get("client") or ("", 0)
        with self._lock, self._bodies.open("ab") as bodies, self._index.open("a", encoding="ascii") as index:
            start = bodies.tell()
            bodies.write(b"".join((head, received, b"\n\n", sent, b"\n\n")))
            record = {
                "time": time.time(),
                "source": client[0],
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "request": [start + len(head), len(received)],
                "answer": [start + len(head) + len(received) + 2, len(sent)],
            }
            index.write(json.dumps(record) + "\n")
