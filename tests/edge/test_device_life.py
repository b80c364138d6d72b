"""One device's life beside a real server, with the real model and real Flower, as a person would live it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from fedaigc.ledger_check import check_receipt
from tests.daemons import BIN, Daemon, command, wait_for
from tests.fleet import MODEL, Edge, Server, stop_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAIRS = 12
NOTICED_S = 45.0
"""A revocation is noticed by the next heartbeat or policy question."""


@pytest.fixture(scope="module")
def edge(server: Server, models: Path) -> Iterator[Edge]:
    """One joined device with a few judged pairs."""
    one = Edge("desk", server.root, models)
    try:
        one.join(f"https://127.0.0.1:{server.port}", server.token("eu-west")["token"])
        yield one
    finally:
        stop_all(one)


def _connected(edge: Edge) -> bool | None:
    return edge.status()["supernode"]["state"] == "connected" or None


def _ask(edge: Edge, question: str) -> str:
    caller = OpenAI(base_url=f"{edge.url}/v1", api_key="local", max_retries=0)
    messages: Any = [{"role": "user", "content": question}]
    answer = caller.chat.completions.create(model=MODEL, messages=messages, max_tokens=24, temperature=0)
    return answer.id


def test_it_answers_a_stock_caller_and_the_receipt_checks_offline(server: Server, edge: Edge) -> None:
    request_id = _ask(edge, "Name a river.")
    receipt = edge.receipts([request_id])[request_id]
    vkey = json.loads((server.officer / "officer.json").read_text(encoding="utf-8"))["log_vkey"]
    assert check_receipt(receipt, vkey).entry.node == edge.status()["node"]


def test_feedback_a_round_and_the_new_policy_that_survives_a_restart(server: Server, edge: Edge) -> None:
    file = edge.root / "judged.jsonl"
    judged = [
        {"prompt": f"What is {n} + {n}?", "chosen": str(2 * n), "rejected": "No."} for n in range(PAIRS)
    ]
    file.write_text("\n".join(map(json.dumps, judged)), encoding="utf-8")
    kept = json.loads(command("fedaigc-edge", "feedback", file, "--data", edge.data, "--json"))
    assert kept == {"kept": PAIRS, "not_yet_pairs": 0}
    wait_for("the SuperNode", lambda: _connected(edge), 60, edge.running())
    ended = server.command("round", "run", "--min-nodes", 1, "--deadline", 300, "--wait")
    assert ended["state"] == "released", ended
    wait_for("policy 1", lambda: edge.status()["policy"] == 1 or None, 60, edge.running())
    spent = float(edge.status()["epsilon_spent"])
    assert spent > 0
    assert edge.running().stop() == 0
    edge.restart()
    after = edge.status()
    assert (after["policy"], float(after["epsilon_spent"])) == (1, spent)
    assert edge.chat("Name a river.")["model"] == f"{MODEL}@1"


def test_a_killed_supernode_and_a_killed_device_are_let_in_again_at_once(edge: Edge) -> None:
    wait_for("the SuperNode", lambda: _connected(edge), 60, edge.running())
    edge.running().kill()
    began = time.monotonic()
    edge.restart()
    wait_for("the SuperNode", lambda: _connected(edge), 60, edge.running())
    # Without its farewell Flower would keep it out until its heartbeats have been missing for a minute.
    assert time.monotonic() - began < 45


def test_a_second_daemon_on_the_same_folder_is_refused(edge: Edge) -> None:
    second = Daemon.start("second", edge.root / "logs", *("fedaigc-edge", "run", "--data", edge.data))
    assert second.process.wait(30) == 3
    assert "in use" in second.log.read_text(encoding="utf-8")


def test_a_revoked_device_falls_silent_and_a_new_token_makes_it_a_new_node(
    server: Server, edge: Edge
) -> None:
    former = edge.status()
    server.command("node", "revoke", former["node"], "--reason", "test")

    def refused() -> str | None:
        answer = httpx.get(f"{edge.url}/ready", timeout=5)
        return answer.text if answer.status_code == 503 and "revoked" in answer.text else None

    assert "new token" in wait_for("the revocation", refused, NOTICED_S, edge.running())
    assert edge.status()["supernode"]["state"] == "stopped"
    assert edge.running().stop() == 0
    edge.join(f"https://127.0.0.1:{server.port}", server.token("eu-west")["token"])
    now = edge.status()
    assert now["node"] != former["node"]
    assert now["epsilon_spent"] == former["epsilon_spent"], "privacy that was spent is never forgotten"
    assert (edge.data / "former" / former["node"] / "evidence.db").exists()


def test_leaving_stops_it_and_erasing_leaves_nothing_of_it(edge: Edge) -> None:
    running = edge.running()
    command("fedaigc-edge", "leave", "--data", edge.data, "--erase", "--yes")
    assert running.process.wait(30) == 0
    assert [path.name for path in edge.data.iterdir()] == ["lock"]
    edge.daemon = None


def test_the_console_script_is_installed() -> None:
    assert (BIN / "fedaigc-edge").exists()
