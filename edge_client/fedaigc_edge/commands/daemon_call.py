"""Ask the running daemon through its unix socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from fedaigc.errors import Unavailable
from fedaigc_edge.enrolment import is_enrolled
from fedaigc_edge.federation.error_answer import error_from_answer
from fedaigc_edge.standing import StandingRecord, State

SOCKET_FILE = Path("run") / "daemon.sock"
API_FILE = Path("run") / "api.json"
WAIT_S = 30.0


def not_running(data: Path) -> Unavailable:
    """The error that says that no daemon serves this folder, and which command would start one."""
    in_service = is_enrolled(data) and StandingRecord(data).current.state is not State.LEFT
    start = "run" if in_service else "join --token TOKEN"
    return Unavailable(
        "The device is not running",
        f"no daemon answers in {data}" if in_service else f"the device in {data} is not joined to a server",
        f"{'start it' if in_service else 'let it join'}: fedaigc-edge {start} --data {data}",
    )


def ask_daemon(data: Path, method: str, path: str) -> dict[str, Any]:
    """One call without a body; raises Unavailable when no daemon runs, else the daemon's error."""
    transport = httpx.HTTPTransport(uds=str(data / SOCKET_FILE))
    try:
        with httpx.Client(transport=transport, timeout=WAIT_S) as http:
            answer = http.request(method, f"http://daemon{path}")
    except httpx.HTTPError as error:
        raise not_running(data) from error
    if answer.status_code != 200:
        raise error_from_answer(answer.status_code, answer.content, f"{method} {path}")
    found: dict[str, Any] = answer.json()
    return found


def api_url(data: Path) -> str:
    """Where the running device's local API listens; raises Unavailable when it does not run."""
    try:
        return str(json.loads((data / API_FILE).read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise not_running(data) from error
