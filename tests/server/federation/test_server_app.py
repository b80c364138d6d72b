"""The ServerApp against a grid and a service that the test plays."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc.errors import ProcessFailed
from fedaigc_server.exact_routes import ExactRoutes
from fedaigc_server.federation.superlink_api import app_archive

flwr = pytest.importorskip("flwr.app")
server_app = pytest.importorskip("fedaigc_server.federation.server_app")

PLAN = b"a signed plan"


class FakeGrid:
    """Answers each message with what `answers[node]` says; None is an error reply, no entry is silence."""

    def __init__(self, answers: dict[str, list[dict[str, Any] | None]]) -> None:
        self.answers = answers
        self.online = dict.fromkeys(answers, "t0")
        self.sent: list[tuple[str, str]] = []
        self.on_send: Callable[[str, str], None] = lambda node, kind: None
        self._replies: list[Any] = []

    def get_nodes(self) -> list[Any]:
        return [SimpleNamespace(node_id=int(n), last_activated_at=t) for n, t in self.online.items()]

    def get_node_ids(self) -> list[int]:
        return [int(node) for node in self.online]

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        identifiers = []
        for message in messages:
            node, kind = str(message.metadata.dst_node_id), message.metadata.message_type
            identifier = f"m{len(self.sent)}"
            identifiers.append(identifier)
            self.sent.append((node, kind))
            self.on_send(node, kind)
            queue = self.answers.get(node, [])
            if queue:
                self._replies.append((identifier, node, queue.pop(0)))
        return identifiers

    def pull_messages(self, identifiers: Iterable[str]) -> list[Any]:
        wanted = set(identifiers)
        ready = [reply for reply in self._replies if reply[0] in wanted]
        self._replies = [reply for reply in self._replies if reply[0] not in wanted]
        return [self._message(*reply) for reply in ready]

    def _message(self, identifier: str, node: str, record: dict[str, Any] | None) -> Any:
        content = None if record is None else flwr.RecordDict({"fedaigc": flwr.ConfigRecord(record)})
        return SimpleNamespace(
            metadata=SimpleNamespace(reply_to_message_id=identifier, src_node_id=int(node)),
            has_content=lambda: content is not None,
            content=content,
        )


class FakeService:
    """The unix socket's other end; records every call."""

    def __init__(self, nodes: list[str], planned: bool = False, deadline_s: float = 20) -> None:
        self.calls: list[tuple[str, bytes]] = []
        self.attempts: set[str] = set()
        self.refuse: set[str] = set()
        self._begun = {
            "planned": planned, "nodes": nodes, "expected": nodes, "gather_s": 1, "query_s": 5,
        }  # fmt: skip
        self._planned = {
            "plan": base64.b64encode(PLAN).decode(), "invited": nodes, "deadline_s": deadline_s,
        }  # fmt: skip

    async def answer(self, request: Request) -> Response:
        step = request.path_params["step"]
        self.attempts.add(request.headers["fedaigc-attempt"])
        self.calls.append((step, await request.body()))
        if step in self.refuse:
            return JSONResponse({"error": {}}, 409)
        return JSONResponse({"begin": self._begun, "statuses": self._planned}.get(step, {}))

    def steps(self) -> list[str]:
        return [step for step, _ in self.calls]

    @contextmanager
    def serving(self, socket: Path) -> Iterator[Any]:
        app = ExactRoutes({("POST", "/rounds/r-1/(?P<step>.+)"): self.answer})
        server = uvicorn.Server(uvicorn.Config(app, uds=str(socket), log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            pass
        yield server_app.RoundCalls(str(socket), "r-1", 4)
        server.should_exit = True
        thread.join(5)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    monkeypatch.setattr(server_app, "POLL_S", 0.01)
    monkeypatch.setattr(server_app, "LOOK_EVERY_S", 0.02)


def test_statuses_are_gathered_the_plan_is_sent_and_every_answer_handed_over(tmp_path: Path) -> None:
    grid = FakeGrid({"1": [{"status": b"s1"}, {"update": b"u1"}], "2": [{"status": b"s2"}, {"error": b"e2"}]})
    service = FakeService(["1", "2"])
    with service.serving(tmp_path / "s") as calls:
        server_app.conduct(grid, calls)
    assert service.steps()[:2] == ["begin", "statuses"]
    assert service.steps()[-1] == "close"
    statuses = json.loads(dict(service.calls)["statuses"])["statuses"]
    assert statuses == {"1": base64.b64encode(b"s1").decode(), "2": base64.b64encode(b"s2").decode()}
    assert dict(service.calls)["updates/1"] == b"u1"
    assert dict(service.calls)["declined/2"] == b"e2"
    assert service.attempts == {"4"}


def test_a_later_attempt_does_not_ask_again(tmp_path: Path) -> None:
    grid = FakeGrid({"1": [{"update": b"u"}]})
    service = FakeService(["1"], planned=True)
    with service.serving(tmp_path / "s") as calls:
        server_app.conduct(grid, calls)
    assert grid.sent == [("1", "train")]


def test_a_node_that_lost_the_message_gets_it_again(tmp_path: Path) -> None:
    grid = FakeGrid({"1": [None, {"update": b"u"}]})
    service = FakeService(["1"], planned=True)
    with service.serving(tmp_path / "s") as calls:
        server_app.conduct(grid, calls)
    assert dict(service.calls)["updates/1"] == b"u"
    assert len(grid.sent) == 2


def test_a_supernode_that_was_restarted_silently_gets_the_message_again(tmp_path: Path) -> None:
    grid = FakeGrid({"1": []})

    def restarted(node: str, kind: str) -> None:
        grid.online["1"] = "t1"
        grid.answers["1"] = [] if len(grid.sent) == 1 else [{"update": b"u"}]

    grid.on_send = restarted
    service = FakeService(["1"], planned=True)
    with service.serving(tmp_path / "s") as calls:
        server_app.conduct(grid, calls)
    assert dict(service.calls)["updates/1"] == b"u"


def test_a_node_that_keeps_failing_is_given_up_and_named(tmp_path: Path) -> None:
    grid = FakeGrid({"1": [None, None, None, None], "2": [{"update": b"u"}]})
    service = FakeService(["1", "2"], planned=True)
    with service.serving(tmp_path / "s") as calls:
        server_app.conduct(grid, calls)
    assert [node for node, _ in grid.sent].count("1") == 3
    assert b"node_lost" in dict(service.calls)["declined/1"]
    assert service.steps()[-1] == "close"


def test_a_silent_node_costs_no_more_than_the_deadline(tmp_path: Path) -> None:
    grid = FakeGrid({"1": [], "2": [{"update": b"u"}]})
    service = FakeService(["1", "2"], planned=True, deadline_s=0.3)
    with service.serving(tmp_path / "s") as calls:
        server_app.conduct(grid, calls)
    assert service.steps() == ["begin", "statuses", "updates/2", "close"]


def test_a_refused_delivery_concerns_that_node_alone(tmp_path: Path) -> None:
    grid = FakeGrid({"1": [{"update": b"u1"}], "2": [{"update": b"u2"}]})
    service = FakeService(["1", "2"], planned=True)
    service.refuse = {"updates/1"}
    with service.serving(tmp_path / "s") as calls:
        server_app.conduct(grid, calls)
    assert {"updates/1", "updates/2", "close"} <= set(service.steps())


def test_a_round_that_ended_stops_the_attempt(tmp_path: Path) -> None:
    service = FakeService(["1"])
    service.refuse = {"begin"}
    with service.serving(tmp_path / "s") as calls, pytest.raises(httpx.HTTPStatusError):
        server_app.conduct(FakeGrid({}), calls)
    assert service.steps() == ["begin"]


def test_main_never_raises_and_prints_no_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(FakeGrid):
        def get_node_ids(self) -> list[int]:
            raise RuntimeError("words that must not be logged")

    service = FakeService(["1"])
    with service.serving(tmp_path / "s"):
        monkeypatch.setenv("FEDAIGC_ROUND_SOCKET", str(tmp_path / "s"))
        config = {"socket": "/of/someone/else", "round": "r-1", "attempt": 4}
        server_app.main(Broken({}), SimpleNamespace(run_config=config))
    assert capsys.readouterr().out == "event=attempt_ended type=RuntimeError\n"


def test_our_own_archive_is_unpacked() -> None:
    unpacked: list[bytes] = []
    runtime = SimpleNamespace(install_from_fab=lambda archive, **_: unpacked.append(archive))
    server_app.hold_to_our_archive(runtime)
    runtime.install_from_fab(app_archive(), skip_prompt=True)
    assert unpacked == [app_archive()]


def test_foreign_code_is_neither_unpacked_nor_run() -> None:
    unpacked: list[bytes] = []
    runtime = SimpleNamespace(install_from_fab=lambda archive, **_: unpacked.append(archive))
    server_app.hold_to_our_archive(runtime)
    with pytest.raises(ProcessFailed, match="foreign code"):
        runtime.install_from_fab(app_archive() + b"x", skip_prompt=True)
    assert not unpacked


def test_the_archive_is_the_same_in_every_process() -> None:
    code = "from fedaigc_server.federation.superlink_api import app_archive; print(app_archive().hex())"
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True)
    assert bytes.fromhex(other.stdout.strip()) == app_archive()


def test_a_flower_that_cannot_be_held_is_not_run() -> None:
    with pytest.raises(ProcessFailed, match=r"1\.42"):
        server_app.hold_to_our_archive(SimpleNamespace())
