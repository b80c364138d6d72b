"""kill -9 at the worst moments: the same command brings everything back, and nothing acknowledged is lost."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from fedaigc.child_process import OWNER_VARIABLE
from tests.daemons import wait_for
from tests.fleet import MODEL, Edge, Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "demo" / "feedback.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
ROUND_SECONDS = 420


@pytest.fixture(scope="module", autouse=True)
def _feedback(edges: list[Edge]) -> None:
    for number, edge in enumerate(edges):
        for pair in PAIRS[number::2][:12]:
            question = [{"role": "user", "content": pair["prompt"]}]
            edge.feedback(messages=question, chosen=pair["chosen"], rejected=pair["rejected"])


@pytest.fixture(autouse=True)
def _everyone_is_well_before_and_after(server: Server, edges: list[Edge]) -> Iterator[None]:
    yield
    server.running()
    for edge in edges:
        edge.running()


class Traffic:
    """Answers asked for in the background; only those whose last byte arrived count as acknowledged."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.acknowledged: list[str] = []
        self.busy = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        assert self.busy.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        url = self.edge.url
        while not self._stop.is_set():
            try:
                self._ask(url)
            except httpx.HTTPError:
                time.sleep(0.2)

    def _ask(self, url: str) -> None:
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": PAIRS[len(self.acknowledged) % 30]["prompt"]}],
            "max_tokens": 60,
            "stream": True,
        }
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as answer:
            request_id = ""
            for line in answer.iter_lines():
                self.busy.set()
                if line == "data: [DONE]":
                    self.acknowledged.append(request_id)
                elif line.startswith("data: ") and "chatcmpl-" in line:
                    request_id = json.loads(line[6:])["id"]


def _start_round(server: Server) -> str:
    begun = server.command("round", "run", "--min-nodes", 2, "--deadline", ROUND_SECONDS, "--no-wait")
    return str(begun["round"])


def _round(server: Server, name: str) -> dict[str, Any]:
    return server.command("round", "show", name)


def _wait_until_training(server: Server, edges: list[Edge], name: str) -> None:
    def training() -> bool | None:
        assert _round(server, name)["state"] in {"planned", "querying", "training"}
        return any(_trainers(edge) for edge in edges) or None

    wait_for("training to start", training, 120)


def _wait_until_ended(server: Server, name: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        shown = _round(server, name)
        return shown if shown["state"] in {"released", "failed"} else None

    return wait_for("the round to end", ended, ROUND_SECONDS + 60)


def _owned(edge: Edge, word: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get(OWNER_VARIABLE) == str(edge.data)
            if ours and any(word in part for part in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def _trainers(edge: Edge) -> list[psutil.Process]:
    return _owned(edge, "fedaigc_edge.learn.trainer")


def _spent(edges: list[Edge]) -> list[float]:
    return [float(edge.status()["epsilon_spent"]) for edge in edges]


def test_a_server_killed_during_generation_loses_no_acknowledged_fingerprint(
    server: Server, edges: list[Edge]
) -> None:
    port = server.port
    with Traffic(edges[0]) as traffic:
        time.sleep(2)
        server.running().kill()
        time.sleep(3)
        server.start(port)
        time.sleep(2)
    assert len(traffic.acknowledged) >= 2
    assert len(edges[0].receipts(traffic.acknowledged, 90)) == len(traffic.acknowledged)


def test_a_device_killed_during_generation_loses_no_acknowledged_fingerprint(edges: list[Edge]) -> None:
    with Traffic(edges[0]) as traffic:
        time.sleep(3)
        edges[0].running().kill()
    edges[0].restart()
    assert traffic.acknowledged
    assert len(edges[0].receipts(traffic.acknowledged, 90)) == len(traffic.acknowledged)


def test_a_supernode_killed_during_generation_comes_back_without_a_stutter(edges: list[Edge]) -> None:
    with Traffic(edges[0]) as traffic:
        for process in _owned(edges[0], "flower-supernode"):
            process.kill()
        time.sleep(2)
    wait_for("a new SuperNode", lambda: _owned(edges[0], "flower-supernode") or None, 60)
    assert traffic.acknowledged
    assert len(edges[0].receipts(traffic.acknowledged, 90)) == len(traffic.acknowledged)


def test_a_round_survives_a_killed_server(server: Server, edges: list[Edge]) -> None:
    before = _spent(edges)
    name = _start_round(server)
    _wait_until_training(server, edges, name)
    port = server.port
    server.running().kill()
    time.sleep(2)
    server.start(port)
    ended = _wait_until_ended(server, name)
    assert ended["state"] == "released", ended
    for old, new in zip(before, _spent(edges), strict=True):
        assert new > old


def test_a_round_with_a_killed_supernode_completes_or_ends_cleanly(server: Server, edges: list[Edge]) -> None:
    before = _spent(edges)
    name = _start_round(server)
    _wait_until_training(server, edges, name)
    for process in _owned(edges[0], "flower-supernode"):
        process.send_signal(signal.SIGKILL)
    ended = _wait_until_ended(server, name)
    assert ended["state"] == "released" or ended["reason"], ended
    for old, new in zip(before, _spent(edges), strict=True):
        assert new >= old


def test_a_device_killed_while_training_never_reports_less_than_it_used(
    server: Server, edges: list[Edge]
) -> None:
    before = _spent(edges)
    name = _start_round(server)
    _wait_until_training(server, edges, name)
    victim = next(edge for edge in edges if _trainers(edge))
    victim.running().kill()
    time.sleep(1)
    assert not _trainers(victim), "the trainer outlived its device"
    victim.restart()
    assert _spent([victim])[0] > before[edges.index(victim)]
    ended = _wait_until_ended(server, name)
    assert ended["state"] == "released" or ended["reason"], ended


def test_after_all_that_the_next_round_and_the_ledger_are_in_order(server: Server, edges: list[Edge]) -> None:
    name = _start_round(server)
    ended = _wait_until_ended(server, name)
    assert ended["state"] == "released", ended
    latest = int(ended["policy"])
    for edge in edges:
        wait_for("the new policy", lambda one=edge: one.status()["policy"] == latest or None, 90)  # type: ignore[misc]
    answer = edges[1].chat(PAIRS[0]["prompt"])
    assert answer["id"] in edges[1].receipts([answer["id"]])
