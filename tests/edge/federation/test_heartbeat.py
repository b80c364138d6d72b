"""The heartbeat: reports, hears, waits longer while nobody answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fedaigc.errors import FedaigcError, NotAuthorised, Unavailable
from fedaigc_edge.federation import heartbeat as module
from fedaigc_edge.federation.heartbeat import Contact, Heartbeat

REPORT = {"policy": 0, "version": "1", "outbox": 2, "model": None}


class _Server:
    def __init__(self, *answers: dict[str, Any] | FedaigcError) -> None:
        self.answers, self.sent = list(answers), list[Any]()

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.sent.append((path, body))
        answer = self.answers.pop(0)
        if isinstance(answer, FedaigcError):
            raise answer
        return answer


def _heartbeat(server: _Server, heard: list[Contact]) -> Heartbeat:
    return Heartbeat(server, lambda: REPORT, heard.append, 10.0, jitter=lambda: 0.5)  # type: ignore[arg-type]


def test_a_beat_reports_and_tells_the_newest_policy() -> None:
    server, heard = _Server({"standing": "active", "policy": 4}), list[Contact]()
    assert asyncio.run(_heartbeat(server, heard).beat()) == Contact(True, "", 4)
    assert heard == [Contact(True, "", 4)]
    assert server.sent == [("/v1/node/heartbeat", REPORT)]


@pytest.mark.parametrize(
    "answer",
    [Unavailable("gone", "no route"), NotAuthorised("revoked"), {"policy": "many"}, {"policy": None}],
)
def test_a_failed_beat_confirms_nothing_and_raises_nothing(answer: Any) -> None:
    heard = list[Contact]()
    contact = asyncio.run(_heartbeat(_Server(answer), heard).beat())
    assert contact.problem
    assert contact.reachable is not isinstance(answer, Unavailable)
    assert heard == []


def test_waits_grow_to_five_minutes_and_a_success_resets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    failures = [Unavailable("gone") for _ in range(7)]
    server = _Server(*failures, {"policy": 0}, Unavailable("gone"))
    with pytest.raises(IndexError):
        asyncio.run(_heartbeat(server, []).run())
    assert waits == [20, 40, 80, 160, 300, 300, 300, 10, 20]


def test_who_looks_hears_of_a_server_that_is_back_before_the_next_beat() -> None:
    heartbeat = _heartbeat(_Server(Unavailable("gone"), {"policy": 2}), [])

    async def go() -> tuple[Contact, Contact, Contact]:
        heartbeat.last = failed = await heartbeat.beat()
        return failed, await heartbeat.look(), await heartbeat.look()

    failed, first, second = asyncio.run(go())
    assert (failed.reachable, first, second) == (False, Contact(True, "", 2), Contact(True, "", 2))


def test_who_looks_does_not_wait_long_for_a_server_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)

    class _Silent(_Server):
        async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(60)
            return {}

    heartbeat = _heartbeat(_Silent(), [])
    heartbeat.last = Contact(False, "no route")
    assert asyncio.run(heartbeat.look()) == Contact(False, "no route")
