"""Ratios are medians of pairs, so that a machine that slows down does not decide who is faster."""

from __future__ import annotations

import pytest

from bench.load_round import LoadRound
from bench.paired_rounds import percentile, ratio
from bench.stream_caller import Heard


def round_of(seconds: float) -> LoadRound:
    return LoadRound(((Heard(0, seconds / 2, seconds, seconds, 10, "length"),),), 10)


def test_a_slow_half_of_the_run_does_not_change_the_ratio() -> None:
    quick, slow = [1.0, 1.0, 1.0], [7.0, 7.0]
    played = {
        "ours": [round_of(s) for s in quick + slow],
        "theirs": [round_of(2 * s) for s in quick + slow],
    }
    assert ratio(played, "ours", "theirs") == pytest.approx(2)


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert percentile(values, 0.5) == 51
    assert percentile(values, 0.99) == 100
    assert percentile([3.0], 0.99) == 3
