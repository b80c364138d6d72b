"""The noise is standard normal, independent, and made of the system's bytes alone."""

from __future__ import annotations

import numpy as np
from scipy import stats

from fedaigc_edge.learn.system_noise import system_noise


def test_the_numbers_are_standard_normal() -> None:
    draw = np.random.default_rng(1)
    numbers = system_noise(200_000, draw.bytes)
    assert stats.kstest(numbers, "norm").pvalue > 0.01
    assert abs(numbers.std() - 1.0) < 0.01
    assert abs(stats.kurtosis(numbers)) < 0.05


def test_neighbours_and_halves_are_uncorrelated() -> None:
    numbers = system_noise(100_000, np.random.default_rng(2).bytes)
    half = numbers.size // 2
    for one, two in ((numbers[:-1], numbers[1:]), (numbers[:half], numbers[half:])):
        assert abs(np.corrcoef(one, two)[0, 1]) < 0.01


def test_any_count_is_served_and_draws_differ() -> None:
    assert system_noise(0).shape == (0,)
    assert system_noise(3).shape == (3,)
    assert not np.array_equal(system_noise(8), system_noise(8))


def test_extreme_bytes_give_finite_numbers() -> None:
    assert np.isfinite(system_noise(9, lambda count: b"\x00" * count)).all()
    assert np.isfinite(system_noise(9, lambda count: b"\xff" * count)).all()


def test_each_number_takes_its_bytes_from_the_source() -> None:
    asked: list[int] = []

    def counting(count: int) -> bytes:
        asked.append(count)
        return np.random.default_rng(len(asked)).bytes(count)

    system_noise(10, counting)
    assert asked == [80] * 4
