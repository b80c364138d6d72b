"""Average a round's updates onto their parent: equal weights, server learning rate 1, error measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedaigc.adapter import Adapter
from fedaigc.adapter_average import mean_adapter
from fedaigc.arrays import FloatArray
from fedaigc.errors import RoundFailed
from fedaigc.reward_head import RewardHead
from fedaigc.round_plan import RoundPlan
from fedaigc.update import NodeUpdate


def average(
    updates: Sequence[NodeUpdate],
    parent_adapter: Adapter | None,
    parent_head: RewardHead | None,
    plan: RoundPlan,
) -> tuple[Adapter, RewardHead, float]:
    """The new adapter and head, and the mean's relative error against the mean of products (at most 1e-6).

    Every admitted node counts the same: weighting by the number of pairs would make that number public and
    let a node buy influence with claims. Parents of None are the base model. Raises RoundFailed for no
    updates, VerificationFailed when kinds do not fit.
    """
    if not updates:
        raise RoundFailed("There is nothing to average", "no update was admitted", "run another round")
    mean = mean_adapter([update.adapter_delta for update in updates])
    adapter = parent_adapter or Adapter.zero(plan.shape, plan.base_model)
    head = parent_head or RewardHead.zero(plan.head_dim, plan.head_layer, plan.base_model)
    changes = np.stack([update.head_delta for update in updates])
    change: FloatArray = changes.astype(np.float64).mean(axis=0).astype(np.float32)
    return adapter.add(mean.adapter), head.add(change), mean.error
