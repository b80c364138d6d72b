from __future__ import annotations

import pytest

from fedaigc.errors import Busy
from fedaigc_server import rate_limit
from fedaigc_server.rate_limit import RateLimit


def test_a_burst_is_allowed_and_then_the_rate_holds() -> None:
    now = [0.0]
    limit = RateLimit(per_minute=60, burst=3, clock=lambda: now[0])
    for _ in range(3):
        limit.take("a")
    with pytest.raises(Busy) as refused:
        limit.take("a")
    assert refused.value.retry_after_s == 1
    now[0] = 1.0
    limit.take("a")
    with pytest.raises(Busy):
        limit.take("a")


def test_one_source_does_not_slow_another() -> None:
    limit = RateLimit(per_minute=1, burst=1, clock=lambda: 0.0)
    limit.take("a")
    limit.take("b")


def test_memory_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MAX_SOURCES", 10)
    limit = RateLimit(per_minute=1, burst=1, clock=lambda: 0.0)
    for number in range(100):
        limit.take(str(number))
    assert len(limit._buckets) == 10
