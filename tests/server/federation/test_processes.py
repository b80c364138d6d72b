from __future__ import annotations

import asyncio

import pytest

from fedaigc.errors import Unavailable
from fedaigc_server.federation.processes import free_port, reconcile_until_done


def test_reconciling_goes_on_until_flower_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def reconcile() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise Unavailable("down", "", "")
        return 2

    async def at_once(seconds: float) -> None:
        """No waiting in a test."""

    monkeypatch.setattr(asyncio, "sleep", at_once)
    asyncio.run(reconcile_until_done(reconcile))
    assert len(calls) == 3


def test_a_free_port_is_a_port() -> None:
    assert 1024 <= free_port() <= 65535
