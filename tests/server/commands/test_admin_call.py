from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fedaigc.errors import RoundFailed, Unavailable
from fedaigc.files import private_folder, write_private
from fedaigc_server.commands.admin_call import ask_admin

ERROR = {"code": "round_failed", "what": "A round is running already", "why": "it is r-1", "do_next": "wait"}


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose admin port answers /good and refuses /bad."""

    class Port(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = self.rfile.read(length)
            good = self.path == "/good"
            answer = (
                {"token": self.headers["authorization"], "body": body.decode()} if good else {"error": ERROR}
            )
            data = b"<html>" if self.path == "/html" else json.dumps(answer).encode()
            self.send_response(200 if good else 409)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    port = HTTPServer(("127.0.0.1", 0), Port)
    threading.Thread(target=port.serve_forever, daemon=True).start()
    write_private(private_folder(tmp_path / "keys") / "operator.token", b"the-token\n")
    url = f"http://127.0.0.1:{port.server_address[1]}"
    write_private(private_folder(tmp_path / "run") / "admin.json", json.dumps({"url": url}).encode())
    yield tmp_path
    port.shutdown()


def test_the_operators_token_goes_along(data: Path) -> None:
    answer = ask_admin(data, "POST", "/good", {"a": 1})
    assert answer["token"] == "Bearer the-token"
    assert json.loads(answer["body"]) == {"a": 1}


def test_a_refusal_comes_back_as_the_error_that_it_was(data: Path) -> None:
    with pytest.raises(RoundFailed, match=r"running already.*r-1.*wait"):
        ask_admin(data, "POST", "/bad")


def test_an_answer_of_something_else_is_told(data: Path) -> None:
    with pytest.raises(Unavailable, match="no usable answer"):
        ask_admin(data, "POST", "/html")


@pytest.mark.parametrize("content", [None, "{}", "not json", '{"url":"http://127.0.0.1:1"}'])
def test_a_server_that_does_not_run_says_how_to_start_it(data: Path, content: str | None) -> None:
    path = data / "run" / "admin.json"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(Unavailable, match=r"not running.*fedaigc-server start --data"):
        ask_admin(data, "POST", "/good")
