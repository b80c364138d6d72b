"""Metrics are valid Prometheus text of numbers."""

from __future__ import annotations

import re

import pytest

from fedaigc.errors import BudgetExceeded, Busy, Denied, FedaigcError, ModelError, RequestInvalid, Unavailable
from fedaigc_edge.serve.request import CallerGone
from fedaigc_edge.serve.serving_metrics import OUTCOMES, ServingMetrics
from fedaigc_edge.serve.stage_clock import STAGES, StageTimes

LINE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"\\]*"(,[a-z_]+="[^"\\]*")*\})? -?[0-9.e+-]+')


def test_every_line_is_a_comment_or_a_sample_and_every_family_is_described_once() -> None:
    metrics = ServingMetrics()
    metrics.denials["no-apples"] += 2
    gauges = {"fedaigc_outbox_pending": ("Waiting.", 4.0), "fedaigc_engine_steps_total": ("Steps.", 7.0)}
    lines = metrics.text(gauges).splitlines()
    assert all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    assert 'fedaigc_denials_total{rule="no-apples"} 2' in lines
    assert "fedaigc_outbox_pending 4" in lines
    assert {"# TYPE fedaigc_outbox_pending gauge", "# TYPE fedaigc_engine_steps_total counter"} <= set(lines)
    assert all(f'fedaigc_requests_total{{outcome="{outcome}"}} 0' in lines for outcome in OUTCOMES)
    assert all(f'fedaigc_stage_seconds_count{{stage="{stage}"}} 0' in lines for stage in STAGES)


def test_an_answered_requests_times_are_counted_with_governance_apart() -> None:
    metrics = ServingMetrics()
    stages = {name: (number + 1) * 10**6 for number, name in enumerate(STAGES)}
    metrics.count_times(StageTimes(stages, sum(stages.values()), 7 * 10**6, 2.5e6))
    text = metrics.text({})
    for name, ns in stages.items():
        assert f'fedaigc_stage_seconds_sum{{stage="{name}"}} {ns / 1e9:.12g}\n' in text
    governance = sum(stages[name] for name in ("gate", "budget", "fingerprint", "outbox", "other")) / 1e9
    assert f"fedaigc_governance_seconds_sum {governance:.12g}\n" in text
    assert "fedaigc_request_seconds_sum 0.045\n" in text
    assert "fedaigc_time_to_first_token_seconds_sum 0.007\n" in text
    assert "fedaigc_time_per_output_token_seconds_sum 0.0025\n" in text


def test_an_answer_without_tokens_has_no_token_times() -> None:
    metrics = ServingMetrics()
    metrics.count_times(StageTimes(dict.fromkeys(STAGES, 1), 9, None, None))
    text = metrics.text({})
    assert "fedaigc_time_to_first_token_seconds_count 0\n" in text
    assert "fedaigc_time_per_output_token_seconds_count 0\n" in text


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Denied("no", rule="r-1"), "denied"),
        (RequestInvalid("no"), "invalid"),
        (BudgetExceeded("no"), "budget"),
        (Busy("no"), "busy"),
        (Unavailable("no"), "unavailable"),
        (CallerGone("no"), "cancelled"),
        (ModelError("no"), "error"),
        (ZeroDivisionError(), "error"),
    ],
)
def test_failures_are_counted_by_their_kind(error: FedaigcError, outcome: str) -> None:
    metrics = ServingMetrics()
    metrics.count_failed(error)
    assert {name for name, count in metrics.requests.items() if count} == {outcome}
    assert metrics.denials == ({"r-1": 1} if outcome == "denied" else {})
