"""DPO moves the policy towards the chosen answers; with the plan's noise it moves by the planned length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from fedaigc.errors import TrainingFailed
from fedaigc.round_plan import StepPlan
from fedaigc_edge.learn.pair_rows import batches, pair_tokens
from fedaigc_edge.learn.policy_training import train_policy
from fedaigc_edge.learn.torch_policy import PairBatch
from tests.edge.learn.tiny_policy import tiny_hf, tiny_policy
from tests.learning_values import HEAD_DIM, an_adapter, some_pairs

pytestmark = pytest.mark.slow
__all__ = ["tiny_hf"]

PLAN = StepPlan(0.3, 9.0, 1, 2.0)


def _margins(folder: Path, policy_delta: object = None) -> float:
    policy = tiny_policy(folder, policy_delta)  # type: ignore[arg-type]
    rows = [pair_tokens(policy.tokenizer, pair) for pair in some_pairs(6)]
    with torch.no_grad():
        return float(sum(policy.margins(PairBatch(packed)).sum() for packed in batches(rows, 2)))


def test_without_noise_every_step_raises_the_margins(tiny_hf: Path) -> None:
    trained = train_policy(tiny_policy(tiny_hf), some_pairs(6), StepPlan(0.3, 1e-3, 2, 2.0), 6, np.zeros)
    assert _margins(tiny_hf, trained.delta) > _margins(tiny_hf)


def test_with_noise_the_step_has_the_planned_length_and_features_cover_every_pair(tiny_hf: Path) -> None:
    trained = train_policy(tiny_policy(tiny_hf), some_pairs(5), PLAN, 8)
    assert trained.delta.norm == pytest.approx(2.0, rel=0.15)
    assert sum(len(block) for block in trained.differences) == 5
    assert {block.shape[1] for block in trained.differences} == {HEAD_DIM}


def test_the_delta_is_counted_from_the_parent(tiny_hf: Path) -> None:
    parent = an_adapter(5, length=50.0)
    trained = train_policy(tiny_policy(tiny_hf, parent), some_pairs(3), PLAN, 8)
    assert trained.delta.norm == pytest.approx(2.0, rel=0.15)


def test_two_runs_never_give_the_same_noise(tiny_hf: Path) -> None:
    one, two = (train_policy(tiny_policy(tiny_hf), some_pairs(2), PLAN, 8).delta for _ in range(2))
    assert one.to_bytes() != two.to_bytes()


def test_no_pairs_are_refused(tiny_hf: Path) -> None:
    with pytest.raises(TrainingFailed):
        train_policy(tiny_policy(tiny_hf), [], PLAN, 8)
