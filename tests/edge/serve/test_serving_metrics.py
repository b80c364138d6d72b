"""Metrics are valid Prometheus text of numbers."""

from __future__ import annotations

import re

import pytest

from fedaigc.errors import BudgetExceeded, Busy, Denied, FedaigcError, ModelError, RequestInvalid, Unavailable
from fedaigc_edge.serve.serving_metrics import BUCKETS_S, OUTCOMES, STAGES, ServingMetrics

LINE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"\\]*"(,[a-z_]+="[^"\\]*")*\})? -?[0-9.e+-]+')


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def test_every_line_is_a_comment_or_a_sample_and_every_family_is_described_once() -> None:
    metrics = ServingMetrics()
    metrics.denials["no-apples"] += 2
    lines = metrics.text({"fedaigc_outbox_pending": ("Waiting.", 4)}).splitlines()
    assert all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    assert 'fedaigc_denials_total{rule="no-apples"} 2' in lines
    assert "fedaigc_outbox_pending 4" in lines
    assert all(f'fedaigc_requests_total{{outcome="{outcome}"}} 0' in lines for outcome in OUTCOMES)


@pytest.mark.parametrize("seconds", [0.0, 0.0005, 0.003, 1.0, 99.0])
def test_a_stage_counts_in_every_bucket_that_is_not_below_it(seconds: float) -> None:
    clock = Clock()
    metrics = ServingMetrics(clock)
    with metrics.stage("seal"):
        clock.time += seconds
    text = metrics.text({})
    for bound in BUCKETS_S:
        assert f'_bucket{{stage="seal",le="{bound:g}"}} {int(seconds <= bound)}\n' in text
    assert 'le="+Inf"} 1\n' in text
    assert f'fedaigc_stage_seconds_sum{{stage="seal"}} {seconds:.12g}\n' in text
    assert len(STAGES) == text.count("fedaigc_stage_seconds_count")


def test_a_stage_that_fails_is_timed_too() -> None:
    metrics = ServingMetrics()
    with pytest.raises(ZeroDivisionError), metrics.stage("gate"):
        raise ZeroDivisionError
    assert 'fedaigc_stage_seconds_count{stage="gate"} 1' in metrics.text({})


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Denied("no", rule="r-1"), "denied"),
        (RequestInvalid("no"), "invalid"),
        (BudgetExceeded("no"), "budget"),
        (Busy("no"), "busy"),
        (Unavailable("no"), "unavailable"),
        (ModelError("no"), "error"),
        (ZeroDivisionError(), "error"),
    ],
)
def test_failures_are_counted_by_their_kind(error: FedaigcError, outcome: str) -> None:
    metrics = ServingMetrics()
    metrics.count_failed(error)
    assert {name for name, count in metrics.requests.items() if count} == {outcome}
    assert metrics.denials == ({"r-1": 1} if outcome == "denied" else {})
