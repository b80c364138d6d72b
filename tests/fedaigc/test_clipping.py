"""Clipping bounds what one pair can do to the sum."""

from __future__ import annotations

import numpy as np
import pytest

from fedaigc.clipping import ClipNorm, unit_rows
from fedaigc.errors import VerificationFailed

DRAW = np.random.default_rng(1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("limit", [0.01, 1.0, 100.0])
def test_one_row_more_moves_the_total_by_at_most_the_sensitivity(
    dtype: type[np.float16 | np.float32 | np.float64], scale: float, limit: float
) -> None:
    rows = (scale * DRAW.standard_normal((20, 30))).astype(dtype).astype(np.float32)
    clip = ClipNorm(limit)
    moved = np.linalg.norm(clip.total(rows) - clip.total(rows[:-1]))
    assert moved <= clip.sensitivity * (1 + 1e-12)


def test_short_rows_are_unchanged_and_long_ones_have_exactly_the_limit() -> None:
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], np.float32)
    clip = ClipNorm(1.0)
    assert np.allclose(clip.factors(rows), [0.2, 1.0, 1.0])
    assert np.allclose(clip.total(rows), [0.9, 1.2])


def test_no_rows_sum_to_zero() -> None:
    assert not ClipNorm(1.0).total(np.zeros((0, 3), np.float32)).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(VerificationFailed, match="not finite"):
        ClipNorm(1.0).total(np.array([[bad, 1.0]], np.float32))


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_must_be_positive_and_finite(limit: float) -> None:
    with pytest.raises(VerificationFailed):
        ClipNorm(limit)


def test_unit_rows_have_length_one_and_zero_stays_zero() -> None:
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32))
    assert np.allclose(rows, [[0.6, 0.8], [0.0, 0.0]])
