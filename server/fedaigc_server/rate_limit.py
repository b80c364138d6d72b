"""A token bucket a source, so that nobody can guess at speed; memory stays bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from fedaigc.errors import Busy

MAX_SOURCES = 10_000
"""The longest-unseen source is forgotten first."""


class RateLimit:
    """At most `burst` calls at once and `per_minute` sustained, a source."""

    def __init__(self, per_minute: int, burst: int, clock: Callable[[], float]) -> None:
        self._rate = per_minute / 60.0
        self._burst = float(burst)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, source: str) -> None:
        """Count one call from `source`; raises Busy with the seconds to wait."""
        now = self._clock()
        with self._lock:
            level, then = self._buckets.pop(source, (self._burst, now))
            level = min(self._burst, level + (now - then) * self._rate)
            allowed = level >= 1.0
            self._buckets[source] = (level - 1.0 if allowed else level, now)
            if len(self._buckets) > MAX_SOURCES:
                self._buckets.popitem(last=False)
        if not allowed:
            wait = max(1, round((1.0 - level) / self._rate))
            raise Busy(
                "Too many enrolment attempts from this address",
                "guessing tokens is slowed down",
                f"try again in {wait} s",
                retry_after_s=wait,
            )
