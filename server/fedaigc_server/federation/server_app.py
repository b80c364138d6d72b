"""Flower's ServerApp of one round: it carries messages between nodes and service, and decides nothing.

Every decision and every byte worth keeping goes at once through the unix socket to the service, so this
process may die at any moment. It never raises: Flower would log the text.

Whoever reaches SuperLink's loopback port can submit a run with other code. Started as `flwr-serverapp`, this
module runs our own archive only.
"""

from __future__ import annotations

import base64
import importlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import httpx
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedaigc.errors import ProcessFailed
from fedaigc_server.federation.superlink import ROUND_SOCKET
from fedaigc_server.federation.superlink_api import app_archive

RECORD = "fedaigc"
POLL_S = 0.3
"""Flower's own loop polls every 3 s, which is most of a short round."""
QUERY = "query.status"
SERVICE_TIMEOUT_S = 600.0
LOOK_EVERY_S = 2.0
RETURN_S = 120.0
"""How long a node that lost its message may stay away before the round stops waiting for it."""

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
    calls = RoundCalls(os.environ[ROUND_SOCKET], str(config["round"]), int(config["attempt"]))
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
        question = Letters(grid, ConfigRecord({"v": 1}), QUERY, float(begun["query_s"]), tries=1)
        question.send(nodes)
        # A node that nobody heard of lately may answer, but the others do not wait for it.
        question.collect(keep_status, set(begun["expected"]) or set(nodes))
    planned = calls.ask("statuses", {"statuses": statuses})

    def keep_update(node: str, record: ConfigRecord) -> None:
        update, error = record.get("update"), record.get("error")
        if isinstance(update, bytes):
            calls.deliver(f"updates/{node}", update)
        elif isinstance(error, bytes):
            calls.deliver(f"declined/{node}", error)

    plan = ConfigRecord({"plan": base64.b64decode(planned["plan"])})
    letters = Letters(grid, plan, MessageType.TRAIN, float(planned["deadline_s"]), tries=3)
    letters.send(planned["invited"])
    for node in letters.collect(keep_update, set(planned["invited"])):
        calls.deliver(f"declined/{node}", b'{"code":"node_lost"}')
    calls.ask("close")


class Letters:
    """One message to each of several nodes, sent again to a node that lost it and came back.

    Sending again is harmless: a device does a round once and then repeats its answer.
    """

    def __init__(
        self, grid: Grid, record: ConfigRecord, message_type: str, seconds: float, tries: int
    ) -> None:
        self._grid = grid
        self._record = record
        self._type = message_type
        self._ends = time.monotonic() + seconds
        self._tries = tries
        self._sent: Counter[str] = Counter()
        self._waiting: dict[str, str] = {}
        self._activated: dict[str, str] = {}
        self._lost: dict[str, float] = {}
        self._gone: set[str] = set()
        self._looked = 0.0

    def send(self, nodes: Iterable[str]) -> None:
        """Send to `nodes`, decimal Flower node ids."""
        content = RecordDict({RECORD: self._record})
        left = max(1.0, self._ends - time.monotonic())
        addressed = list(nodes)
        messages = [Message(content, int(node), self._type, ttl=left + 5.0) for node in addressed]
        online = self._online() if messages else {}
        for node, identifier in zip(
            addressed, self._grid.push_messages(messages) if messages else (), strict=True
        ):
            self._sent[node] += 1
            self._activated[node] = online.get(node, "")
            if identifier:
                self._waiting[identifier] = node

    def collect(self, keep: Callable[[str, ConfigRecord], None], needed: set[str]) -> list[str]:
        """Give answers to `keep` until each of `needed` answered or is lost, or time is up; the lost ones."""
        while needed & {*self._waiting.values(), *self._lost} and time.monotonic() < self._ends:
            for reply in self._grid.pull_messages(set(self._waiting)) if self._waiting else ():
                node = self._waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is None:
                    continue
                # An error's text may quote anything, so nothing of it is looked at.
                if reply.has_content() and RECORD in reply.content:
                    keep(node, reply.content.config_records[RECORD])
                else:
                    self._lost[node] = time.monotonic()
            if time.monotonic() - self._looked > LOOK_EVERY_S:
                self._send_again()
            time.sleep(POLL_S)
        return sorted(node for node in needed if node in self._gone or node in self._lost)

    def _send_again(self) -> None:
        now, online = time.monotonic(), self._online()
        self._looked = now
        for identifier, node in list(self._waiting.items()):
            # A SuperNode that was restarted forgot what it had been sent, and nobody tells.
            if node in online and online[node] != self._activated[node]:
                del self._waiting[identifier]
                self._lost[node] = now
        back = [node for node in self._lost if node in online and self._sent[node] < self._tries]
        for node, since in list(self._lost.items()):
            if node in back or self._sent[node] >= self._tries or now - since > RETURN_S:
                del self._lost[node]
                if node not in back:
                    self._gone.add(node)
        self.send(back)

    def _online(self) -> dict[str, str]:
        return {str(node.node_id): node.last_activated_at for node in self._grid.get_nodes()}


def _gather(grid: Grid, nodes: list[str], expected: list[str], seconds: float) -> list[str]:
    ends = time.monotonic() + seconds
    while True:
        online = {str(node) for node in grid.get_node_ids()}
        if set(expected) <= online or time.monotonic() > ends:
            return [node for node in nodes if node in online]
        time.sleep(POLL_S)


def run_task() -> None:
    """Stand in for `flwr-serverapp`. Raises ProcessFailed when this Flower cannot be held to our app."""
    hold_to_our_archive(importlib.import_module("flwr.superlink.runtime.run_serverapp"))
    importlib.import_module("flwr.superlink.cli.flwr_serverapp").flwr_serverapp()


def hold_to_our_archive(runtime: Any) -> None:
    """Let Flower's runner unpack no archive but ours; raises ProcessFailed when it cannot be told so."""
    unpack = getattr(runtime, "install_from_fab", None)
    if unpack is None:
        raise ProcessFailed(
            "Flower's ServerApp runner is not the one that this version knows",
            "it has no install_from_fab, so foreign code might be run",
            "install flwr==1.42.*",
        )

    def unpack_ours(archive: bytes, *rest: Any, **named: Any) -> Any:
        if archive != app_archive():
            raise ProcessFailed(
                "A run on SuperLink carries foreign code",
                "someone on this machine submitted it, or it is from before an upgrade",
                "look who can reach the loopback ports of this machine",
            )
        return unpack(archive, *rest, **named)

    runtime.install_from_fab = unpack_ours


if __name__ == "__main__":
    run_task()
