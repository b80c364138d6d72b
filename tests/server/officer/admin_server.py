"""The officer's routes of the admin port on a real loopback socket, in front of a real ledger."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fedaigc.errors import FedaigcError, NotAuthorised
from fedaigc_server.ledger.ledger import Ledger
from fedaigc_server.ledger.search import (
    officer_checkpoint,
    officer_consistency,
    officer_entry,
    officer_search,
)
from tests.server.officer.device import MINUTE

TOKEN = "officer-token-of-the-tests"


@dataclass
class AdminServer:
    ledger: Ledger
    url: str = ""
    received: list[bytes] = field(default_factory=list)
    """Every byte that the officer's side sent: request lines, headers and bodies."""
    rewrite: Callable[[dict[str, Any]], Any] = lambda answer: answer
    """What a lying server makes of its answers."""

    def answer(self, method: str, path: str, body: bytes, token: str) -> tuple[int, Any]:
        try:
            if token != f"Bearer {TOKEN}":
                raise NotAuthorised("The officer's token is wrong", "", "copy it again")
            return 200, self.rewrite(self._answer(method, path, body))
        except FedaigcError as error:
            return 403 if isinstance(error, NotAuthorised) else 400, {"error": error.as_json()}

    def _answer(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        parts = urlsplit(path)
        if (method, parts.path) == ("POST", "/v1/officer/search"):
            question = json.loads(body)
            return officer_search(self.ledger, question["case"], question["tags"], MINUTE)
        if parts.path == "/v1/officer/checkpoint":
            return officer_checkpoint(self.ledger)
        if parts.path == "/v1/officer/consistency":
            query = parse_qs(parts.query)
            return officer_consistency(self.ledger, int(query["first"][0]), int(query["second"][0]))
        return officer_entry(self.ledger, int(parts.path.removeprefix("/v1/officer/entries/")))


@contextmanager
def serving(ledger: Ledger) -> Iterator[AdminServer]:
    admin = AdminServer(ledger)

    class Face(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            admin.received.append(f"{self.command} {self.path} {self.headers}".encode() + body)
            status, answer = admin.answer(
                self.command, self.path, body, self.headers.get("authorization", "")
            )
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Face)
    admin.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield admin
    finally:
        server.shutdown()
        server.server_close()
