from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.confidence import interval


def mean(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return float(values.mean())


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=12))
def test_the_interval_holds_what_was_measured_and_stays_inside_it(values: list[float]) -> None:
    low, high = interval(values, mean)
    assert min(values) - 1e-9 <= low <= np.mean(values) + 1e-9
    assert np.mean(values) - 1e-9 <= high <= max(values) + 1e-9


def test_it_is_the_same_every_time() -> None:
    assert interval([1.0, 2.0, 4.0], mean) == interval([1.0, 2.0, 4.0], mean)


def test_it_is_as_wide_as_theory_says() -> None:
    values = list(np.random.default_rng(1).standard_normal(400))
    low, high = interval(values, mean)
    assert high - low == pytest.approx(2 * 1.96 * np.std(values) / 20, rel=0.1)


def test_equal_values_leave_no_doubt() -> None:
    assert interval([3.0] * 5, mean) == (3.0, 3.0)
