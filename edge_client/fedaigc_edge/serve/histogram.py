"""One Prometheus histogram family, and the exposition's lines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

BUCKETS_S = (
    *(0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Upper bounds, seconds: governance is told in tens of microseconds, generation in seconds."""


class Histogram:
    """Seconds, counted into BUCKETS_S; with a `label`, one series for each of `values`."""

    def __init__(self, name: str, help_text: str, label: str = "", values: Sequence[str] = ("",)) -> None:
        self._name = name
        self._help = help_text
        self._label = label
        self._counts = {value: [0] * (len(BUCKETS_S) + 1) for value in values}
        self._sums = dict.fromkeys(values, 0.0)

    def observe(self, seconds: float, value: str = "") -> None:
        """Count one measurement."""
        self._counts[value][bisect_left(BUCKETS_S, seconds)] += 1
        self._sums[value] += seconds

    def lines(self) -> list[str]:
        """Its part of the exposition."""
        lines = family(self._name, "histogram", self._help)
        bounds = [*(f"{bound:g}" for bound in BUCKETS_S), "+Inf"]
        for value, counts in self._counts.items():
            labels = {self._label: value} if self._label else {}
            below = 0
            for bound, count in zip(bounds, counts, strict=True):
                below += count
                lines.append(sample(f"{self._name}_bucket", below, **labels, le=bound))
            lines.append(sample(f"{self._name}_sum", self._sums[value], **labels))
            lines.append(sample(f"{self._name}_count", below, **labels))
        return lines


def family(name: str, kind: str, help_text: str) -> list[str]:
    """The two lines that describe a family."""
    return [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]


def sample(name: str, value: float, **labels: str) -> str:
    """One line. Label values are our own words and rule ids, whose characters need no escaping."""
    shown = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{shown}}} {value:.12g}" if shown else f"{name} {value:.12g}"
