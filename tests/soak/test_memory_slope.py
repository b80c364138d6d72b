"""The judge of flatness is right about what is flat."""

from __future__ import annotations

import os

import numpy as np

from tests.soak.memory_slope import growth_mb, rss_mb


def test_a_leak_shows_and_a_spike_does_not() -> None:
    noise = np.random.default_rng(1).normal(0, 1, 100)
    leaking = 300 + np.linspace(0, 40, 100) + noise
    assert 25 < growth_mb(list(leaking)) < 35
    flat = 300 + noise
    flat[60:63] += 200
    assert abs(growth_mb(list(flat))) < 1


def test_growth_while_warming_up_does_not_count() -> None:
    assert growth_mb([100 + 4.0 * n for n in range(25)] + [200.0] * 75) == 0


def test_the_memory_is_this_process_s() -> None:
    assert 10 < rss_mb() < 100_000
    assert abs(rss_mb() - rss_mb(os.getpid())) < 5
