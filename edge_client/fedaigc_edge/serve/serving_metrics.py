"""Count what the device serves, as Prometheus text: numbers and rule names, never a word of any text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from fedaigc.errors import (
    BudgetExceeded,
    Busy,
    Denied,
    FedaigcError,
    NotAuthorised,
    RequestInvalid,
    Unavailable,
)
from fedaigc_edge.serve.histogram import Histogram, family, sample
from fedaigc_edge.serve.request import CallerGone
from fedaigc_edge.serve.stage_clock import STAGES, StageTimes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

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


class ServingMetrics:
    """Counters of one device. Used from the event loop only."""

    def __init__(self) -> None:
        self.requests: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.completion_tokens = 0
        self.denials: dict[str, int] = defaultdict(int)
        self._stages = Histogram(
            "fedaigc_stage_seconds", "Time of answered requests by stage.", "stage", STAGES
        )
        self._total = Histogram("fedaigc_request_seconds", "Whole time of answered requests.")
        self._governance = Histogram(
            "fedaigc_governance_seconds", "Time of answered requests in all steps but generation."
        )
        self._first = Histogram("fedaigc_time_to_first_token_seconds", "From the request to its first token.")
        self._each = Histogram(
            "fedaigc_time_per_output_token_seconds", "Mean time between an answer's later tokens."
        )

    def count_failed(self, error: Exception) -> None:
        """Count a request that failed, by the kind of its error; a denial also by its rule."""
        outcome = next((name for kind, name in _OUTCOME_OF if isinstance(error, kind)), "error")
        self.requests[outcome] += 1
        if isinstance(error, Denied):
            self.denials[error.rule] += 1

    def count_times(self, times: StageTimes) -> None:
        """Count where an answered request's time went."""
        for stage, ns in times.stages.items():
            self._stages.observe(ns / 1e9, stage)
        self._total.observe(times.total_ns / 1e9)
        self._governance.observe(times.governance_ns / 1e9)
        if times.first_token_ns is not None:
            self._first.observe(times.first_token_ns / 1e9)
        if times.per_token_ns is not None:
            self._each.observe(times.per_token_ns / 1e9)

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """The exposition; `gauges` maps a metric's name to its help and its value now.

        A name that ends in `_total` is told as a counter.
        """
        lines = family("fedaigc_requests_total", "counter", "Requests by how they ended.")
        lines += [sample("fedaigc_requests_total", n, outcome=o) for o, n in sorted(self.requests.items())]
        lines += family("fedaigc_tokens_total", "counter", "Tokens read and generated.")
        kinds = {
            "prompt": self.prompt_tokens,
            "cached": self.cached_tokens,
            "completion": self.completion_tokens,
        }
        lines += [sample("fedaigc_tokens_total", count, kind=kind) for kind, count in kinds.items()]
        lines += family("fedaigc_denials_total", "counter", "Requests that the gate refused, by rule.")
        lines += [sample("fedaigc_denials_total", n, rule=r) for r, n in sorted(self.denials.items())]
        for histogram in (self._stages, self._total, self._governance, self._first, self._each):
            lines += histogram.lines()
        for name, (help_text, value) in sorted(gauges.items()):
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [*family(name, kind, help_text), sample(name, value)]
        return "\n".join(lines) + "\n"
