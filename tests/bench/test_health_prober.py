"""A pause is counted as often as callers would have met it."""

from __future__ import annotations

import pytest

from bench.health_prober import delays_ms


def test_a_quick_answer_counts_once() -> None:
    assert delays_ms(0.003) == [pytest.approx(3)]


def test_a_long_pause_counts_for_every_caller_it_held_up() -> None:
    assert delays_ms(0.065) == [pytest.approx(ms) for ms in (65, 45, 25, 5)]
