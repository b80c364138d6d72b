"""How long prompts wait to be admitted together while answers run.

Admitting a prompt computes it, and every running stream stands still meanwhile. A longer window stalls them
less often, a shorter one brings first tokens sooner. The window follows additive increase, multiplicative
decrease (Chiu and Jain, 1989) on the waits that it causes. A window that grows with the measured delay feeds
itself: after one burst it stays at its upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fedaigc.errors import SettingsError

MIN_WINDOW_MS = 5.0
MAX_WINDOW_MS = 500.0
MIN_BATCH = 16
MAX_BATCH = 1024
STEP_MS = 5.0
"""What one interval adds."""
BACK_OFF = 0.5
"""What one interval of too long waits leaves of the window."""
AT_EASE = 0.8
"""Below this share of the time per token that is promised, streams do not suffer and the window shrinks."""
MAX_SAMPLES = 4096
"""Waits, and times per token, kept for one interval."""


@dataclass(frozen=True)
class WindowSettings:
    """What the window may be, and what it must keep. Raises SettingsError.

    Args:
        window_ms: where it starts, 5 to 500.
        max_batch: as many waiting prompts are admitted at once whatever the window says, 16 to 1024.
        first_token_ms: the promised time to first token, 10 to 60,000.
        queue_share: the part of it that may go to waiting in line, above 0 to 1.
        token_ms: the promised time per token of a running stream, 1 to 10,000.
        interval_s: how often the window is adapted, 0.05 to 60.
    """

    window_ms: float = 20.0
    max_batch: int = 128
    first_token_ms: float = 500.0
    queue_share: float = 0.3
    token_ms: float = 50.0
    interval_s: float = 1.0

    def __post_init__(self) -> None:
        _require("window_ms", self.window_ms, MIN_WINDOW_MS, MAX_WINDOW_MS)
        _require("max_batch", self.max_batch, MIN_BATCH, MAX_BATCH)
        _require("first_token_ms", self.first_token_ms, 10.0, 60_000.0)
        _require("queue_share", self.queue_share, 0.01, 1.0)
        _require("token_ms", self.token_ms, 1.0, 10_000.0)
        _require("interval_s", self.interval_s, 0.05, 60.0)

    @property
    def wait_ms(self) -> float:
        """How long a prompt may wait in line."""
        return self.first_token_ms * self.queue_share


class BatchingWindow:
    """Says when waiting prompts may be admitted; used from one thread, times in seconds of one clock."""

    def __init__(self, settings: WindowSettings | None = None) -> None:
        self._settings = settings or WindowSettings()
        self._window_ms = self._settings.window_ms
        self._admitted_at = -math.inf
        self._adapted_at: float | None = None
        self._waits: list[float] = []
        self._token_times: list[float] = []

    @property
    def window_ms(self) -> float:
        """How long after an admission the next one may come."""
        return self._window_ms

    @property
    def settings(self) -> WindowSettings:
        """Those in force."""
        return self._settings

    def update(self, settings: WindowSettings) -> None:
        """Take new settings; what the window has learned stays, unless its starting value was changed."""
        if settings.window_ms != self._settings.window_ms:
            self._window_ms = settings.window_ms
        self._settings = settings

    def may_admit(self, now: float, waiting: int, running: int) -> bool:
        """Whether `waiting` prompts may join `running` streams now; call it at every step."""
        self._adapt(now)
        if not waiting:
            return False
        if not running or waiting >= self._settings.max_batch:
            return True
        return (now - self._admitted_at) * 1000.0 >= self._window_ms

    def admitted(self, now: float, waits: Iterable[float]) -> None:
        """Prompts were admitted now after having waited so many seconds each."""
        self._admitted_at = now
        self._waits += (wait * 1000.0 for wait in waits)
        del self._waits[:-MAX_SAMPLES]

    def note_token_time(self, seconds: float) -> None:
        """Running streams waited `seconds` from one token to the next, stalls included."""
        self._token_times.append(seconds * 1000.0)
        del self._token_times[:-MAX_SAMPLES]

    def _adapt(self, now: float) -> None:
        if self._adapted_at is None:
            self._adapted_at = now
        if now - self._adapted_at < self._settings.interval_s:
            return
        self._adapted_at = now
        if self._waits or self._token_times:
            waited, token = p95(self._waits), p95(self._token_times)
            self._window_ms = next_window_ms(self._window_ms, waited, token, self._settings)
        self._waits, self._token_times = [], []


def next_window_ms(
    window_ms: float, wait_p95_ms: float, token_p95_ms: float, settings: WindowSettings
) -> float:
    """The window after an interval with these waits and times per token; never larger for a larger wait."""
    if wait_p95_ms > settings.wait_ms:
        window_ms *= BACK_OFF
    elif token_p95_ms > settings.token_ms:
        window_ms += STEP_MS
    elif token_p95_ms < settings.token_ms * AT_EASE:
        window_ms -= STEP_MS
    return min(MAX_WINDOW_MS, max(MIN_WINDOW_MS, window_ms))


def p95(values: list[float]) -> float:
    """The smallest value that at least 95 % do not exceed (nearest rank); 0 for none."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1] if values else 0.0


def _require(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise SettingsError(f"{name} must be {low:g} to {high:g}", f"it is {value:g}", "correct the value")
