"""Count what the device serves, as Prometheus text: numbers and rule names, never a word of any text."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from fedaigc.errors import (
    BudgetExceeded,
    Busy,
    Denied,
    FedaigcError,
    NotAuthorised,
    RequestInvalid,
    Unavailable,
)
from fedaigc_edge.serve.generation_slots import CallerGone

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the stage histogram, seconds."""

_OUTCOME_OF: tuple[tuple[type[FedaigcError], str], ...] = (
    (Denied, "denied"),
    (RequestInvalid, "invalid"),
    (BudgetExceeded, "budget"),
    (Busy, "busy"),
    (CallerGone, "cancelled"),
    (NotAuthorised, "unavailable"),
    (Unavailable, "unavailable"),
)

OUTCOMES = ("ok", "cancelled", "denied", "invalid", "budget", "busy", "unavailable", "error")
STAGES = ("gate", "queue_and_generate", "seal", "remember", "total")


class ServingMetrics:
    """Counters of one device. Used from the event loop only.

    Args:
        now: a clock in seconds that never runs backwards.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.requests: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.denials: dict[str, int] = defaultdict(int)
        self._now = now
        self._counts = {stage: [0] * (len(BUCKETS_S) + 1) for stage in STAGES}
        self._sums = dict.fromkeys(STAGES, 0.0)

    def count_failed(self, error: Exception) -> None:
        """Count a request that failed, by the kind of its error; a denial also by its rule."""
        outcome = next((name for kind, name in _OUTCOME_OF if isinstance(error, kind)), "error")
        self.requests[outcome] += 1
        if isinstance(error, Denied):
            self.denials[error.rule] += 1

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a block as one of STAGES, also when it raises."""
        started = self._now()
        try:
            yield
        finally:
            seconds = self._now() - started
            self._counts[name][bisect_left(BUCKETS_S, seconds)] += 1
            self._sums[name] += seconds

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """The exposition; `gauges` maps a metric's name to its help and its value now."""
        lines = _family("fedaigc_requests_total", "counter", "Chat completions by how they ended.")
        lines += [_sample("fedaigc_requests_total", n, outcome=o) for o, n in sorted(self.requests.items())]
        lines += _family("fedaigc_tokens_total", "counter", "Tokens read and generated.")
        lines.append(_sample("fedaigc_tokens_total", self.prompt_tokens, kind="prompt"))
        lines.append(_sample("fedaigc_tokens_total", self.completion_tokens, kind="completion"))
        lines += _family("fedaigc_denials_total", "counter", "Requests that the gate refused, by rule.")
        lines += [_sample("fedaigc_denials_total", n, rule=r) for r, n in sorted(self.denials.items())]
        lines += _family("fedaigc_stage_seconds", "histogram", "Time in each stage of the pipeline.")
        for stage in STAGES:
            lines += self._histogram(stage)
        for name, (help_text, value) in sorted(gauges.items()):
            lines += [*_family(name, "gauge", help_text), _sample(name, value)]
        return "\n".join(lines) + "\n"

    def _histogram(self, stage: str) -> list[str]:
        lines, below = [], 0
        bounds = [*(f"{bound:g}" for bound in BUCKETS_S), "+Inf"]
        for bound, count in zip(bounds, self._counts[stage], strict=True):
            below += count
            lines.append(_sample("fedaigc_stage_seconds_bucket", below, stage=stage, le=bound))
        lines.append(_sample("fedaigc_stage_seconds_sum", self._sums[stage], stage=stage))
        lines.append(_sample("fedaigc_stage_seconds_count", below, stage=stage))
        return lines


def _family(name: str, kind: str, help_text: str) -> list[str]:
    return [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]


def _sample(name: str, value: float, **labels: str) -> str:
    # Label values are our own words and rule ids, whose characters need no escaping.
    shown = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{shown}}} {value:.12g}" if shown else f"{name} {value:.12g}"
