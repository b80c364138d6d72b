from __future__ import annotations

from fedaigc_server.clock import Clock


def test_one_source_gives_seconds_minutes_and_utc() -> None:
    clock = Clock(lambda: 1_790_000_059.9)
    assert clock.seconds() == 1_790_000_059
    assert clock.minute() == 1_790_000_059 // 60
    assert clock.utc().isoformat().startswith("2026-09-21T")
