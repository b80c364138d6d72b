"""A cliff shows, attention does not."""

from __future__ import annotations

import pytest

from bench.sweep import LENGTHS, Point, worst_step


def points(seconds: list[float]) -> list[Point]:
    return [Point(n, s, n / s, 1.0) for n, s in zip(LENGTHS, seconds, strict=True)]


def test_matrix_products_and_attention_alone_make_no_cliff() -> None:
    smooth = [0.004 + 1.2e-3 * n + 2e-7 * n * n for n in LENGTHS]
    assert worst_step(points(smooth)) == pytest.approx(1, abs=1e-6)


def test_a_cliff_stands_out_of_the_curve() -> None:
    cliff = [0.004 + 1.2e-3 * n + (1.0 if n > 1500 else 0) for n in LENGTHS]
    assert worst_step(points(cliff)) > 1.1
