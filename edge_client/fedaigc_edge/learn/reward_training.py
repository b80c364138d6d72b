"""Train the reward head privately: Bradley-Terry on unit-length differences, chosen minus rejected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc.clipping import unit_rows
from fedaigc.errors import TrainingFailed
from fedaigc.reward_head import RewardHead
from fedaigc.round_plan import StepPlan
from fedaigc_edge.learn.private_step import bradley_terry, head_weights, linear_head, private_steps
from fedaigc_edge.learn.system_noise import NoiseSource, system_noise

BATCH_ROWS = 256


def train_head(
    parent: RewardHead,
    differences: Sequence[FloatArray],
    plan: StepPlan,
    expected_pairs: int,
    noise: NoiseSource = system_noise,
) -> FloatArray:
    """How the head's weights change, (dim,): `plan.steps` noised steps from the parent's.

    Args:
        differences: features of chosen minus rejected answers, blocks of (pairs, dim); scaled to length 1
            here,
            so that a pair's gradient is at most that long whatever the model's hidden states are.

    Raises TrainingFailed when a guard of `private_steps` stops a step.
    """
    rows = np.concatenate(list(differences)) if differences else np.zeros((0, parent.dim), dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != parent.dim or not np.isfinite(rows).all():
        raise TrainingFailed(
            "The features do not fit the reward head",
            f"it reads {parent.dim} finite features",
            "export the model again",
        )
    head = linear_head(parent.weights)
    unit = unit_rows(rows)
    batches = [unit[start : start + BATCH_ROWS] for start in range(0, len(unit), BATCH_ROWS)]
    private_steps(head, batches, lambda batch: bradley_terry(head, batch), plan, expected_pairs, noise)
    return head_weights(head) - parent.weights
