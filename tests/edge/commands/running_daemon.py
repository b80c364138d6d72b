"""A stand-in daemon on a unix socket, for tests of the commands that ask it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse

from fedaigc.files import folder_lock, private_folder
from fedaigc_edge.commands.daemon_call import API_FILE, SOCKET_FILE
from fedaigc_edge.listening import loopback_socket, private_unix_socket

STATUS: dict[str, Any] = {
    "version": "0",
    "running": True,
    "node": "n-0123456789abcdef",
    "name": "desk",
    "region": "eu-west",
    "server": "dc:8443",
    "standing": "active",
    "standing_since": 0,
    "standing_reason": "",
    "do_next": "",
    "reachable": True,
    "problem": "",
    "api": "http://127.0.0.1:8080",
    "ready": True,
    "not_ready": "",
    "model": "smollm2-135m",
    "policy": 2,
    "policy_problem": "",
    "gate_version": "ab" * 32,
    "gate_problem": "",
    "delivery_problem": "",
    "outbox": 1,
    "receipts": 5,
    "pairs_new": 3,
    "epsilon_left": "1.5",
    "supernode": {"state": "connected", "message": "", "restarts": 0},
}


Answer = tuple[int, Any] | Callable[[Any], Any]
"""A status and JSON, or what makes the JSON of the body that was sent."""


@dataclass
class Stand:
    """What the stand-in was asked: (method, path, JSON body or None)."""

    asked: list[tuple[str, str, Any]] = field(default_factory=list)


@contextmanager
def running_daemon(data: Path, answers: Mapping[str, Answer] | None = None) -> Iterator[Stand]:
    """Answer on the folder's socket and API port; POST /leave ends it and frees the lock."""
    stand = Stand()
    known: dict[str, Answer] = {"/status/full": (200, STATUS), "/leave": (200, {"leaving": True})}
    known |= answers or {}
    private_folder(data / "run")
    api = loopback_socket(0)
    url = f"http://127.0.0.1:{api.getsockname()[1]}"
    (data / API_FILE).write_text(json.dumps({"url": url}))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        body = await request.body()
        judged = json.loads(body) if body else None
        stand.asked.append((request.method, request.url.path, judged))
        answer = known.get(request.url.path, (404, {}))
        status, content = answer if isinstance(answer, tuple) else (200, answer(judged))
        await JSONResponse(content, status)(scope, receive, send)
        server.should_exit = server.should_exit or request.url.path == "/leave"

    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))

    def serve() -> None:
        with folder_lock(data):
            server.run([private_unix_socket(data / SOCKET_FILE), api])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield stand
    finally:
        server.should_exit = True
        thread.join(10)
