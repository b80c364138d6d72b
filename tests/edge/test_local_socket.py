"""The daemon's socket: routes, limits, and errors that never quote content."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from fedaigc.errors import Busy, FedaigcError, ModelError, NotAuthorised, PrivacyBudgetExceeded, Unavailable
from fedaigc_edge.local_socket import MAX_PLAN_BYTES, DaemonActs, http_status, socket_app


def _face(fail: Exception | None = None) -> tuple[TestClient, list[Any]]:
    done = list[Any]()

    async def run_round(plan: bytes) -> bytes:
        done.append(plan)
        if fail is not None:
            raise fail
        return b"update"

    async def full_status() -> dict[str, Any]:
        return {"node": "n-1"}

    async def round_status() -> dict[str, int]:
        return {"pairs_new": 1}

    acts = DaemonActs(round_status, run_round, full_status, lambda: done.append("leave"))
    return TestClient(socket_app(acts), raise_server_exceptions=False), done


def test_each_route_does_its_act() -> None:
    face, done = _face()
    assert face.post("/status").json() == {"pairs_new": 1}
    assert face.get("/status/full").json() == {"node": "n-1"}
    assert face.post("/round", content=b"plan").content == b"update"
    assert face.post("/leave").json() == {"leaving": True}
    assert done == [b"plan", "leave"]


def test_a_plan_beyond_the_limit_is_refused_before_the_round() -> None:
    face, done = _face()
    answer = face.post("/round", content=b"x" * (MAX_PLAN_BYTES + 1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert done == []


def test_an_unexpected_failure_tells_its_type_and_logs_no_text(caplog: pytest.LogCaptureFixture) -> None:
    face, _ = _face(RuntimeError("the secret prompt"))
    with caplog.at_level(logging.DEBUG):
        answer = face.post("/round", content=b"plan")
    assert answer.status_code == 500
    assert answer.json()["error"]["why"] == "RuntimeError"
    assert "secret" not in answer.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PrivacyBudgetExceeded("x"), 409),
        (NotAuthorised("x"), 403),
        (ModelError("x"), 503),
        (Unavailable("x"), 503),
        (Busy("x"), 429),
        (FedaigcError("x"), 500),
    ],
)
def test_our_errors_keep_their_words_and_get_a_fitting_status(error: FedaigcError, status: int) -> None:
    face, _ = _face(error)
    answer = face.post("/round", content=b"plan")
    assert (answer.status_code, answer.json()) == (status, {"error": error.as_json()})
    assert http_status(error) == status


@pytest.mark.parametrize(("method", "path"), [("GET", "/status"), ("GET", "/"), ("POST", "/status/full")])
def test_other_routes_are_refused(method: str, path: str) -> None:
    face, _ = _face()
    assert face.request(method, path).status_code in (404, 405)
