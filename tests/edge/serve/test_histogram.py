"""A histogram counts each measurement in every bucket that is not below it."""

from __future__ import annotations

import pytest

from fedaigc_edge.serve.histogram import BUCKETS_S, Histogram


@pytest.mark.parametrize("seconds", [0.0, 0.00001, 0.0005, 0.003, 1.0, 99.0])
def test_a_measurement_counts_in_every_bucket_that_is_not_below_it(seconds: float) -> None:
    histogram = Histogram("h", "Help.", "stage", ("gate", "other"))
    histogram.observe(seconds, "gate")
    text = "\n".join(histogram.lines()) + "\n"
    for bound in BUCKETS_S:
        assert f'h_bucket{{stage="gate",le="{bound:g}"}} {int(seconds <= bound)}\n' in text
    assert 'h_bucket{stage="gate",le="+Inf"} 1\n' in text
    assert f'h_sum{{stage="gate"}} {seconds:.12g}\n' in text
    assert 'h_count{stage="other"} 0\n' in text


def test_without_a_label_there_is_one_series() -> None:
    histogram = Histogram("h", "Help.")
    histogram.observe(0.2)
    assert histogram.lines()[-2:] == ["h_sum 0.2", "h_count 1"]
    assert 'h_bucket{le="+Inf"} 1' in histogram.lines()


def test_bounds_rise() -> None:
    assert list(BUCKETS_S) == sorted(set(BUCKETS_S))
