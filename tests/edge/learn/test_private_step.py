"""A noised step is the clipped sum plus noise, or it fails: nothing dies silently."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from opacus.grad_sample import GradSampleHooks
from opacus.optimizers import DPOptimizer

from fedaigc.clipping import ClipNorm
from fedaigc.errors import TrainingFailed
from fedaigc.round_plan import StepPlan
from fedaigc_edge.learn import private_step
from fedaigc_edge.learn.pair_rows import PairTokens, batches, pack
from fedaigc_edge.learn.private_step import bradley_terry, head_weights, linear_head, private_steps
from fedaigc_edge.learn.system_noise import Normals, system_noise
from fedaigc_edge.learn.torch_policy import PairBatch
from tests.edge.learn.tiny_policy import tiny_hf, tiny_policy

pytestmark = pytest.mark.slow
__all__ = ["tiny_hf"]

PLAN = StepPlan(clip_norm=0.02, noise_multiplier=2.0, steps=1, learning_rate=3.0)
DRAW = np.random.default_rng(1)
ROWS = [
    PairTokens(
        tuple(DRAW.integers(3, 60, int(DRAW.integers(2, 9)))),
        tuple(DRAW.integers(3, 60, int(DRAW.integers(2, 9)))),
        tuple(DRAW.integers(3, 60, int(DRAW.integers(2, 9)))),
    )
    for _ in range(7)
]


def _silent(count: int) -> Normals:
    return np.zeros(count)


def _trained(policy: Any) -> list[Any]:
    return [p for p in policy.module.parameters() if p.requires_grad]


def _flat(policy: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.concatenate([p.detach().double().numpy().ravel() for p in _trained(policy)])


def _gradients_one_by_one(folder: Path) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Each pair's gradient from its own ordinary backward pass: (pairs, parameters)."""
    policy = tiny_policy(folder)
    found = []
    for row in ROWS:
        policy.module.zero_grad()
        policy.losses(PairBatch(pack([row]))).sum().backward()  # type: ignore[no-untyped-call]
        found.append(np.concatenate([p.grad.numpy().ravel() for p in _trained(policy)]))
    return np.stack(found)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_without_noise_a_step_is_the_independently_clipped_sum_whatever_the_batches(
    tiny_hf: Path, size: int
) -> None:
    policy = tiny_policy(tiny_hf)
    work = [PairBatch(packed) for packed in batches(ROWS, size)]
    private_steps(policy.module, work, policy.losses, PLAN, 32, _silent)
    gradients = _gradients_one_by_one(tiny_hf)
    norms = np.linalg.norm(gradients, axis=1)
    assert (norms > PLAN.clip_norm).any(), "the test must clip something"
    wanted = -PLAN.scale(gradients.shape[1], 32) * ClipNorm(PLAN.clip_norm).total(gradients)
    assert np.linalg.norm(_flat(policy) - wanted) <= 1e-3 * np.linalg.norm(wanted)


def test_the_private_count_of_pairs_is_no_denominator(tiny_hf: Path) -> None:
    policy, twice = tiny_policy(tiny_hf), tiny_policy(tiny_hf)
    for each, rows in ((policy, ROWS), (twice, ROWS * 2)):
        work = [PairBatch(packed) for packed in batches(rows, 3)]
        private_steps(each.module, work, each.losses, PLAN, 32, _silent)
    assert np.allclose(2 * _flat(policy), _flat(twice), rtol=1e-3, atol=1e-7)


def test_the_noise_has_the_plan_s_deviation_and_none_is_used_twice(tiny_hf: Path) -> None:
    asked: list[int] = []

    def noise(count: int) -> Normals:
        asked.append(count)
        return system_noise(count)

    policy, still = tiny_policy(tiny_hf), tiny_policy(tiny_hf)
    work = [[PairBatch(packed) for packed in batches(ROWS, 3)] for _ in range(2)]
    private_steps(policy.module, work[0], policy.losses, PLAN, 32, noise)
    private_steps(still.module, work[1], still.losses, PLAN, 32, _silent)
    added = _flat(policy) - _flat(still)
    deviation = PLAN.scale(added.size, 32) * PLAN.clip_norm * PLAN.noise_multiplier
    assert added.std() == pytest.approx(deviation, rel=0.15)
    assert asked == [p.numel() for p in _trained(policy)]
    assert np.linalg.norm(_flat(policy)) == pytest.approx(PLAN.learning_rate, rel=0.3)


def test_several_steps_draw_new_noise_and_keep_the_first_reference(tiny_hf: Path) -> None:
    policy = tiny_policy(tiny_hf)
    work = [PairBatch(packed) for packed in batches(ROWS, 4)]
    done: list[tuple[int, int]] = []
    plan = StepPlan(0.02, 2.0, 3, 0.5)
    private_steps(
        policy.module, work, policy.losses, plan, 32, system_noise, lambda *progress: done.append(progress)
    )
    assert done == [(number, 6) for number in range(1, 7)]
    with torch.no_grad():
        after = policy.margins(work[0])
    assert work[0].reference is not None
    assert float((after - work[0].reference).abs().max()) > 0


def _detach_a_hook(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(GradSampleHooks):  # type: ignore[misc]
        def add_hooks(self, **options: Any) -> None:
            super().add_hooks(**options)
            for _ in range(2):
                self.autograd_grad_sample_hooks.pop().remove()

    monkeypatch.setattr(private_step, "GradSampleHooks", Forgetful)


def _freeze_all(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy.module.requires_grad_(False)


def _eval_mode(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy.module.eval()


@pytest.mark.parametrize("harm", [_detach_a_hook, _freeze_all, _eval_mode])
def test_a_dead_module_fails_at_the_first_step(
    tiny_hf: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Any, pytest.MonkeyPatch], None]
) -> None:
    policy = tiny_policy(tiny_hf)
    harm(policy, monkeypatch)
    work = [PairBatch(packed) for packed in batches(ROWS, 4)]
    with pytest.raises(TrainingFailed):
        private_steps(policy.module, work, policy.losses, PLAN, 32, system_noise)


def test_a_zero_gradient_fails_though_noise_would_move_the_weights(tiny_hf: Path) -> None:
    policy = tiny_policy(tiny_hf)
    work = [PairBatch(packed) for packed in batches(ROWS, 4)]
    with pytest.raises(TrainingFailed, match="dead"):
        private_steps(policy.module, work, lambda batch: 0.0 * policy.losses(batch), PLAN, 32, system_noise)


def test_a_gradient_that_is_not_finite_fails(tiny_hf: Path) -> None:
    policy = tiny_policy(tiny_hf)
    work = [PairBatch(packed) for packed in batches(ROWS, 4)]
    with pytest.raises(TrainingFailed, match="not finite"):
        private_steps(
            policy.module, work, lambda batch: float("inf") * policy.losses(batch), PLAN, 32, system_noise
        )


def test_gradients_per_answer_instead_of_per_pair_fail() -> None:
    head = linear_head(np.zeros(6, np.float32))
    rows = DRAW.standard_normal((4, 6)).astype(np.float32)

    class Pairs(list[int]):
        """Two pairs, whose four answers are rows of their own: the usual form."""

    with pytest.raises(TrainingFailed, match="not one a pair"):
        private_steps(head, [Pairs([0, 1])], lambda _: bradley_terry(head, rows), PLAN, 32, system_noise)


def test_a_library_that_clips_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    head = linear_head(np.zeros(6, np.float32))
    rows = DRAW.standard_normal((8, 6)).astype(np.float32)
    clip = DPOptimizer.clip_and_accumulate

    def loose(self: Any) -> None:
        self.max_grad_norm *= 3.0
        clip(self)
        self.max_grad_norm /= 3.0

    monkeypatch.setattr(DPOptimizer, "clip_and_accumulate", loose)
    with pytest.raises(TrainingFailed, match="clipped otherwise"):
        private_steps(head, [rows], lambda batch: bradley_terry(head, batch), PLAN, 32, system_noise)


def test_hooks_are_gone_afterwards(tiny_hf: Path) -> None:
    policy = tiny_policy(tiny_hf)
    for _ in range(2):
        work = [PairBatch(packed) for packed in batches(ROWS, 4)]
        private_steps(policy.module, work, policy.losses, PLAN, 32, system_noise)
    assert not any(hasattr(p, "grad_sample") for p in policy.module.parameters())


def test_bradley_terry_is_the_logistic_loss_and_weights_come_back() -> None:
    weights = DRAW.standard_normal(5).astype(np.float32)
    rows = DRAW.standard_normal((3, 5)).astype(np.float32)
    head = linear_head(weights)
    assert np.array_equal(head_weights(head), weights)
    losses = bradley_terry(head, rows).detach().numpy()
    assert np.allclose(losses, np.log1p(np.exp(-rows @ weights)), atol=1e-5)


def test_three_hundred_honest_steps_raise_no_false_alarm() -> None:
    for seed in range(300):
        rows = np.random.default_rng(seed).standard_normal((5, 16)).astype(np.float32)
        head = linear_head(np.zeros(16, np.float32))
        work = [rows[:3], rows[3:]]
        private_steps(head, work, partial(bradley_terry, head), PLAN, 8, system_noise)
