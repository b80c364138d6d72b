"""Train the adapter's B privately: DPO over packed pairs; the same pass gives the reward head's features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedaigc.adapter import Adapter
from fedaigc.arrays import FloatArray
from fedaigc.preference import Preference
from fedaigc.round_plan import StepPlan
from fedaigc_edge.learn.pair_rows import batches, pair_tokens
from fedaigc_edge.learn.private_step import Progress, private_steps
from fedaigc_edge.learn.system_noise import NoiseSource, system_noise
from fedaigc_edge.learn.torch_policy import PairBatch, TorchPolicy

BATCH_PAIRS = 2
"""Pairs in one pass: more are no quicker on one core and take 80 MB each for the logits."""


@dataclass(frozen=True)
class TrainedPolicy:
    """The noised change of B; and the pairs' feature differences, which stay on the device."""

    delta: Adapter
    differences: tuple[FloatArray, ...]


def train_policy(
    policy: TorchPolicy,
    pairs: Sequence[Preference],
    plan: StepPlan,
    expected_pairs: int,
    noise: NoiseSource = system_noise,
    progress: Progress = lambda done, total: None,
) -> TrainedPolicy:
    """`plan.steps` noised full-batch steps from the parent's B on all `pairs`.

    The reference of DPO is the parent policy: every step's loss is measured against the margins before the
        first.
    Raises TrainingFailed when a guard of `private_steps` stops a step.
    """
    rows = [pair_tokens(policy.tokenizer, pair) for pair in pairs]
    work = [PairBatch(packed) for packed in batches(rows, BATCH_PAIRS)]
    private_steps(policy.module, work, policy.losses, plan, expected_pairs, noise, progress)
    return TrainedPolicy(policy.adapter_delta(), tuple(policy.differences(batch) for batch in work))
