from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.errors import SettingsError
from fedaigc_edge.engine.batching_window import BatchingWindow, WindowSettings, next_window_ms, p95

SETTINGS = WindowSettings()
TIMES = st.floats(0.0, 1e6)
WINDOWS = st.floats(5.0, 500.0)


@given(WINDOWS, TIMES, TIMES, TIMES)
def test_a_longer_wait_never_makes_the_window_longer(
    window: float, one: float, other: float, token: float
) -> None:
    short, long = sorted((one, other))
    assert next_window_ms(window, long, token, SETTINGS) <= next_window_ms(window, short, token, SETTINGS)


@given(WINDOWS, TIMES, TIMES)
def test_the_window_stays_within_its_bounds(window: float, wait: float, token: float) -> None:
    assert 5.0 <= next_window_ms(window, wait, token, SETTINGS) <= 500.0


def test_too_long_waits_halve_it_suffering_streams_add_to_it_and_ease_takes_from_it() -> None:
    assert next_window_ms(80.0, SETTINGS.wait_ms + 1, 1000.0, SETTINGS) == 40.0
    assert next_window_ms(80.0, SETTINGS.wait_ms, SETTINGS.token_ms + 1, SETTINGS) == 85.0
    assert next_window_ms(80.0, 0.0, SETTINGS.token_ms * 0.9, SETTINGS) == 80.0
    assert next_window_ms(80.0, 0.0, SETTINGS.token_ms * 0.5, SETTINGS) == 75.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window_ms", 4.9),
        ("window_ms", 500.1),
        ("window_ms", float("nan")),
        ("max_batch", 15),
        ("max_batch", 1025),
        ("first_token_ms", 9.0),
        ("queue_share", 0.0),
        ("queue_share", 1.1),
        ("token_ms", 0.0),
        ("interval_s", 0.0),
    ],
)
def test_a_setting_out_of_its_bounds_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=name):
        WindowSettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("window_ms", "max_batch"), [(5.0, 16), (500.0, 1024)])
def test_the_bounds_themselves_are_allowed(window_ms: float, max_batch: int) -> None:
    window = BatchingWindow(WindowSettings(window_ms=window_ms, max_batch=max_batch))
    assert window.window_ms == window_ms


def test_with_nothing_running_a_prompt_never_waits() -> None:
    window = BatchingWindow(WindowSettings(window_ms=100.0))
    window.admitted(10.0, [0.0])
    assert window.may_admit(10.0, 1, 0)
    assert not window.may_admit(10.0, 1, 1)
    assert not window.may_admit(10.0, 0, 0)


def test_a_prompt_joins_at_most_one_window_after_the_admission_before_it() -> None:
    window = BatchingWindow(WindowSettings(window_ms=50.0))
    assert window.may_admit(1.0, 1, 3)
    window.admitted(1.0, [0.0])
    assert not window.may_admit(1.049, 2, 3)
    assert window.may_admit(1.051, 2, 3)


def test_a_full_batch_does_not_wait_for_the_window() -> None:
    window = BatchingWindow(WindowSettings(window_ms=500.0, max_batch=16))
    window.admitted(1.0, [0.0])
    assert not window.may_admit(1.0, 15, 3)
    assert window.may_admit(1.0, 16, 3)


def test_new_settings_keep_what_was_learned_unless_they_say_another_window() -> None:
    window = BatchingWindow(WindowSettings(window_ms=100.0))
    window.may_admit(0.0, 0, 0)
    window.admitted(0.5, [9.0] * 20)
    window.may_admit(1.0, 0, 0)
    assert window.window_ms == 50.0
    window.update(WindowSettings(window_ms=100.0, max_batch=16))
    assert window.window_ms == 50.0 and window.may_admit(0.5, 16, 1)
    window.update(WindowSettings(window_ms=200.0))
    assert window.window_ms == 200.0 and window.settings.max_batch == 128


def test_an_interval_in_which_nothing_happened_changes_nothing() -> None:
    window = BatchingWindow(WindowSettings(window_ms=100.0))
    for second in range(20):
        window.may_admit(float(second), 1, 1)
    assert window.window_ms == 100.0


@given(st.lists(st.floats(0, 1e3), max_size=200))
def test_the_p95_is_the_smallest_value_that_19_of_20_do_not_exceed(values: list[float]) -> None:
    found = p95(values)
    if values:
        enough = [value for value in values if sum(other <= value for other in values) >= 0.95 * len(values)]
        assert found == min(enough)
    else:
        assert found == 0.0


@dataclass
class Queue:
    """Eight slots. A prompt takes a free slot when the window allows, and every admission stalls all streams.

    While prompts wait for a window, slots stand empty: that is what makes a long window dangerous.
    """

    rate: float
    """Prompts a second, at random."""
    answer_s: tuple[float, float] = (0.2, 0.6)
    slots: int = 8
    step_s: float = 0.01
    stall_s: float = 0.0
    """What admitting one prompt adds to the step."""
    seed: int = 3
    now: float = 0.0
    line: deque[float] = field(default_factory=deque)
    ends: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def step(self, window: BatchingWindow, rate: float | None = None) -> list[float]:
        """One decode step; returns the waits of those admitted."""
        self.line.extend(
            [self.now] * sum(self.dice.random() < (rate or self.rate) * self.step_s / 4 for _ in range(4))
        )
        self.ends = [end for end in self.ends if end > self.now]
        waits: list[float] = []
        if window.may_admit(self.now, len(self.line), len(self.ends)):
            while self.line and len(self.ends) < self.slots:
                waits.append(self.now - self.line.popleft())
                self.ends.append(self.now + self.dice.uniform(*self.answer_s))
            if waits:
                window.admitted(self.now, waits)
        took = self.step_s + self.stall_s * len(waits)
        if self.ends:
            window.note_token_time(took)
        self.ends = [end + took - self.step_s for end in self.ends]
        self.now += took
        return waits


class ArticlesWindow(BatchingWindow):
    """The article's: clamp(5, 500, max(10, min(200, 150 - rate / 2)) + p95 / 10)."""

    rate = 14.0

    def _adapt(self, now: float) -> None:
        if self._adapted_at is None:
            self._adapted_at = now
        if now - self._adapted_at >= 1.0:
            base = max(10.0, min(200.0, 150.0 - self.rate / 2))
            self._window_ms = max(5.0, min(500.0, base + p95(self._waits) / 10))
            self._adapted_at, self._waits = now, []


def after_a_burst(window: BatchingWindow) -> tuple[float, int]:
    """A quiet minute, twenty seconds of three times the load, four quiet minutes; the window and the line."""
    queue = Queue(rate=14.0)
    while queue.now < 60.0:
        queue.step(window)
    assert len(queue.line) < 30
    while queue.now < 80.0:
        queue.step(window, rate=42.0)
    while queue.now < 320.0:
        queue.step(window)
    return window.window_ms, len(queue.line)


def test_after_a_burst_the_line_empties_where_the_articles_formula_never_recovers() -> None:
    settings = WindowSettings(max_batch=1024, token_ms=1000.0)
    window_ms, line = after_a_burst(BatchingWindow(settings))
    assert window_ms < 50.0 and line < 30
    window_ms, line = after_a_burst(ArticlesWindow(settings))
    assert window_ms == 500.0 and line > 300


@pytest.mark.parametrize("start_ms", [5.0, 100.0, 500.0])
def test_from_any_start_it_settles_where_waits_are_just_within_their_share(start_ms: float) -> None:
    # Stalls make streams suffer at every window, so the waits alone bound it.
    settings = WindowSettings(window_ms=start_ms, token_ms=11.0)
    window, queue = BatchingWindow(settings), Queue(rate=9.0, stall_s=0.03)
    while queue.now < 60.0:
        queue.step(window)
    seen: list[float] = []
    waits: list[float] = []
    while queue.now < 180.0:
        waits += queue.step(window)
        seen.append(window.window_ms)
    mean = sum(seen) / len(seen)
    assert 60.0 < mean < 250.0 and max(seen) < 300.0
    assert p95([wait * 1000 for wait in waits]) < 1.3 * settings.wait_ms


def test_while_no_stream_suffers_the_window_shrinks_to_the_shortest() -> None:
    window, queue = BatchingWindow(WindowSettings(token_ms=1000.0)), Queue(rate=5.0)
    while queue.now < 60.0:
        queue.step(window)
    assert window.window_ms == 5.0


def test_a_longer_window_stalls_streams_less_often() -> None:
    counts = []
    for window_ms in (5.0, 300.0):
        window = BatchingWindow(WindowSettings(window_ms=window_ms, interval_s=60.0))
        queue = Queue(rate=10.0)
        stalled = 0
        while queue.now < 50.0:
            stalled += bool(queue.step(window))
        counts.append(stalled)
    assert counts[0] > 1.5 * counts[1]
