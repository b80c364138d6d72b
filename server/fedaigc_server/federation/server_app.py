"""Flower's ServerApp of one round: it carries messages between nodes and service, and decides nothing.

Every decision and every byte worth keeping goes at once through the unix socket to the service, so this
process may die at any moment. It never raises: Flower would log the text.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable
from typing import Any

import httpx
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

RECORD = "fedaigc"
POLL_S = 0.3
"""Flower's own loop polls every 3 s, which is most of a short round."""
QUERY = "query.status"
SERVICE_TIMEOUT_S = 600.0

app = ServerApp()


class RoundCalls:
    """The calls that one attempt at a round makes to the service; each may be repeated."""

    def __init__(self, socket: str, round_id: str, attempt: int) -> None:
        self._base = f"/rounds/{round_id}"
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=socket, retries=5),
            base_url="http://service",
            timeout=SERVICE_TIMEOUT_S,
            headers={"fedaigc-attempt": str(attempt)},
        )

    def ask(self, step: str, record: dict[str, Any] | None = None) -> dict[str, Any]:
        """One JSON call; raises httpx.HTTPError when the service refuses or is gone."""
        answer = self._http.post(f"{self._base}/{step}", json=record or {})
        answer.raise_for_status()
        return dict(answer.json())

    def deliver(self, step: str, data: bytes) -> None:
        """Hand over what a node sent; a refusal concerns that node alone, so only a failure raises."""
        answer = self._http.post(f"{self._base}/{step}", content=data)
        if answer.is_server_error:
            answer.raise_for_status()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the round that the run configuration names."""
    config = context.run_config
    calls = RoundCalls(str(config["socket"]), str(config["round"]), int(config["attempt"]))
    try:
        conduct(grid, calls)
    except Exception as error:
        print(f"event=attempt_ended type={type(error).__name__}", flush=True)  # noqa: T201 (Flower keeps stdout)


def conduct(grid: Grid, calls: RoundCalls) -> None:
    """The round: ask who can take part, send the plan to whom the service invites, hand every answer over."""
    begun = calls.ask("begin")
    statuses: dict[str, str] = {}

    def keep_status(node: str, record: ConfigRecord) -> None:
        status = record.get("status")
        if isinstance(status, bytes):
            statuses[node] = base64.b64encode(status).decode("ascii")

    # An attempt after the first goes on with the plan that the nodes may already have trained from.
    if not begun["planned"]:
        nodes = _gather(grid, begun["nodes"], begun["expected"], float(begun["gather_s"]))
        question = RecordDict({RECORD: ConfigRecord({"v": 1})})
        _exchange(grid, nodes, question, QUERY, float(begun["query_s"]), keep_status)
    planned = calls.ask("statuses", {"statuses": statuses})

    def keep_update(node: str, record: ConfigRecord) -> None:
        update, error = record.get("update"), record.get("error")
        if isinstance(update, bytes):
            calls.deliver(f"updates/{node}", update)
        elif isinstance(error, bytes):
            calls.deliver(f"declined/{node}", error)

    plan = RecordDict({RECORD: ConfigRecord({"plan": base64.b64decode(planned["plan"])})})
    seconds = float(planned["deadline_s"])
    _exchange(grid, planned["invited"], plan, MessageType.TRAIN, seconds, keep_update)
    calls.ask("close")


def _gather(grid: Grid, nodes: list[str], expected: list[str], seconds: float) -> list[str]:
    ends = time.monotonic() + seconds
    while True:
        online = {str(node) for node in grid.get_node_ids()}
        if set(expected) <= online or time.monotonic() > ends:
            return [node for node in nodes if node in online]
        time.sleep(POLL_S)


def _exchange(
    grid: Grid,
    nodes: Iterable[str],
    content: RecordDict,
    message_type: str,
    seconds: float,
    keep: Callable[[str, ConfigRecord], None],
) -> None:
    ends = time.monotonic() + seconds
    messages = [Message(content, int(node), message_type, ttl=seconds + 5.0) for node in nodes]
    waiting = {identifier for identifier in grid.push_messages(messages) if identifier} if messages else set()
    while waiting and time.monotonic() < ends:
        for reply in grid.pull_messages(waiting):
            waiting.discard(reply.metadata.reply_to_message_id)
            # An error's text may quote anything, so only that there was none or one is looked at.
            if reply.has_content() and RECORD in reply.content:
                keep(str(reply.metadata.src_node_id), reply.content.config_records[RECORD])
        time.sleep(POLL_S)
