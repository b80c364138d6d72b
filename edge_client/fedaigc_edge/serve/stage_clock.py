"""Where one request's time went: nanoseconds by stage, which add up to the whole exactly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from fedaigc_edge.engine.generator import EngineTimes

STAGES = ("queue", "tokenise", "prefill", "decode", "gate", "budget", "fingerprint", "outbox", "other")
GOVERNANCE = ("gate", "budget", "fingerprint", "outbox", "other")
"""Everything but generation: what it costs that an answer is governed. `other` is counted against it."""


@dataclass(frozen=True)
class StageTimes:
    """One request's stages, nanoseconds; `other` is what no stage claimed, so that they sum to `total_ns`.

    `first_token_ns` runs from the request's start to its first piece, `per_token_ns` is the mean time between
    the tokens after it; None when there were none.
    """

    stages: Mapping[str, int]
    total_ns: int
    first_token_ns: int | None
    per_token_ns: float | None

    @property
    def governance_ns(self) -> int:
        """The time of GOVERNANCE."""
        return sum(self.stages[name] for name in GOVERNANCE)

    def milliseconds(self) -> dict[str, float]:
        """Every stage and `total`, milliseconds with all their nanoseconds."""
        return {name: ns / 1e6 for name, ns in (*self.stages.items(), ("total", self.total_ns))}


class StageClock:
    """Times one request; made when its body has arrived. `now` is a clock in nanoseconds.

    Stages follow one another: no two run at one time, or `other` would be what they overlap too little.
    """

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now = now
        self._started = now()
        self._spent = dict.fromkeys(STAGES[:-1], 0)
        self._first: int | None = None
        self._last = 0
        self._tokens_after_first = 0
        self._times: StageTimes | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a block as one of STAGES but `other`, also when it raises; it may come several times."""
        started = self._now()
        try:
            yield
        finally:
            self._spent[name] += self._now() - started

    @contextmanager
    def seal(self, sealing_ns: Callable[[], int]) -> Iterator[None]:
        """Time the wait for the evidence as `outbox`, but for the part in which it was computed, which is
        `fingerprint`: digests, commitment and sealed opening."""
        started = self._now()
        yield
        waited = self._now() - started
        spent = min(sealing_ns(), waited)
        self._spent["fingerprint"] += spent
        self._spent["outbox"] += waited - spent

    @contextmanager
    def generation(self, times: Callable[[], EngineTimes]) -> Iterator[None]:
        """Time a block in which an engine worked, and divide it as the engine says, asked at the end.

        What the engine says beyond the block is cut, so that `other` is never below 0.
        """
        started = self._now()
        try:
            yield
        finally:
            left = self._now() - started
            told = times()
            for name, ns in (
                ("queue", told.queue_ns),
                ("prefill", told.prefill_ns),
                ("decode", told.decode_ns),
            ):
                part = max(0, min(ns, left))
                self._spent[name] += part
                left -= part

    def tokens(self, count: int) -> None:
        """Note that `count` tokens came now."""
        self._last = self._now()
        if self._first is None:
            self._first = self._last
        else:
            self._tokens_after_first += count

    def end(self) -> StageTimes:
        """The stages up to now; a later call gives the same ones."""
        if self._times is None:
            total = self._now() - self._started
            other = total - sum(self._spent.values())
            after, first = self._tokens_after_first, self._first
            self._times = StageTimes(
                {**self._spent, "other": other},
                total,
                None if first is None else first - self._started,
                None if first is None or not after else (self._last - first) / after,
            )
        return self._times
