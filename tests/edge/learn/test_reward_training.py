"""The reward head learns which answer is better, privately, from differences of length one."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from fedaigc.errors import TrainingFailed
from fedaigc.reward_head import RewardHead
from fedaigc.round_plan import StepPlan
from fedaigc_edge.learn.reward_training import train_head
from fedaigc_edge.learn.system_noise import Normals
from tests.learning_values import BASE_MODEL, HEAD_DIM, a_head

pytestmark = pytest.mark.slow

ZERO = RewardHead.zero(HEAD_DIM, 1, BASE_MODEL)
PLAN = StepPlan(0.5, 9.0, 1, 1.0)


def _silent(count: int) -> Normals:
    return np.zeros(count)


def _differences(count: int, seed: int = 1) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Noisy differences whose mean points along a_head(7)."""
    draw = np.random.default_rng(seed)
    return (10 * a_head(7) + draw.standard_normal((count, HEAD_DIM))).astype(np.float32)


def test_without_noise_the_first_step_is_half_the_sum_of_the_unit_differences() -> None:
    rows = _differences(20)
    delta = train_head(ZERO, [rows[:5], rows[5:]], PLAN, 32, _silent)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.allclose(delta, 0.5 * PLAN.scale(HEAD_DIM, 32) * unit.sum(0), atol=1e-5)


def test_a_noised_step_is_about_as_long_as_planned() -> None:
    delta = train_head(ZERO, [_differences(20)], PLAN, 32)
    assert np.linalg.norm(delta) == pytest.approx(1.0, abs=0.5)


def test_many_pairs_teach_the_head_through_the_noise() -> None:
    head = ZERO.add(train_head(ZERO, [_differences(900)], PLAN, 32))
    held_out = _differences(200, seed=2)
    assert (head.score(held_out) > 0).mean() > 0.9


def test_training_starts_from_the_parent() -> None:
    parent = RewardHead(a_head(3, 5.0), 1, BASE_MODEL)
    delta = train_head(parent, [_differences(20)], PLAN, 32, _silent)
    assert 0 < np.linalg.norm(delta) < 1.0


def test_features_that_do_not_fit_are_refused() -> None:
    for wrong in ([], [np.zeros((3, 5), np.float32)], [np.full((1, HEAD_DIM), np.nan, np.float32)]):
        with pytest.raises(TrainingFailed):
            train_head(ZERO, wrong, PLAN, 32)
