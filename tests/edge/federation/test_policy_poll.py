"""The policy poll: asks on time, at once when woken, and survives every refusal."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import pytest

from fedaigc.errors import FedaigcError, Unavailable, VerificationFailed
from fedaigc_edge.federation.policy_poll import PolicyPoll


@dataclass(frozen=True)
class _Change:
    version: int
    milliseconds: float = 1.0


class _Receiver:
    def __init__(self, *answers: _Change | FedaigcError | None) -> None:
        self.answers, self.asked = list(answers), 0

    async def check_for_policy(self, server: Any) -> _Change | None:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, FedaigcError):
            raise answer
        return answer


def _poll(receiver: _Receiver, every_s: float = 60.0, allowed: bool = True) -> PolicyPoll:
    return PolicyPoll(receiver, None, every_s, lambda: allowed, jitter=lambda: 0.5)  # type: ignore[arg-type]


async def _for_a_moment(poll: PolicyPoll, seconds: float = 0.1) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(poll.run(), seconds)


def test_it_asks_at_once_then_on_time() -> None:
    receiver = _Receiver()
    asyncio.run(_for_a_moment(_poll(receiver, every_s=0.03)))
    assert 3 <= receiver.asked <= 5


def test_waking_it_asks_without_the_wait() -> None:
    receiver = _Receiver(None, _Change(1))

    async def go() -> PolicyPoll:
        poll = _poll(receiver)
        task = asyncio.create_task(_for_a_moment(poll, 0.3))
        await asyncio.sleep(0.05)
        poll.wake()
        await task
        return poll

    assert asyncio.run(go()).last_change == _Change(1)
    assert receiver.asked == 2


@pytest.mark.parametrize("error", [Unavailable("down"), VerificationFailed("forged", "another key")])
def test_a_refusal_keeps_the_loop_alive(error: FedaigcError, caplog: pytest.LogCaptureFixture) -> None:
    receiver = _Receiver(error, _Change(2))
    poll = _poll(receiver, every_s=0.02)
    asyncio.run(_for_a_moment(poll))
    assert poll.last_change == _Change(2)
    assert ("policy_refused" in caplog.text) is isinstance(error, VerificationFailed)


def test_a_device_that_may_not_generate_does_not_ask() -> None:
    receiver = _Receiver()
    asyncio.run(_for_a_moment(_poll(receiver, every_s=0.02, allowed=False)))
    assert receiver.asked == 0
