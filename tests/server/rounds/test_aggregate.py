"""The new policy is the parent plus the plain mean of the updates, and the mean's error is told."""

from __future__ import annotations

import numpy as np
import pytest

from fedaigc.adapter import Adapter
from fedaigc.errors import RoundFailed, VerificationFailed
from fedaigc.identifiers import NodeId
from fedaigc.reward_head import RewardHead
from fedaigc_server.rounds.aggregate import average
from tests.learning_values import BASE_MODEL, HEAD_DIM, SHAPE, a_head, a_plan, an_adapter, an_update

PLAN = a_plan()
UPDATES = [an_update(PLAN, seed, NodeId(f"n-{seed:016x}")) for seed in (1, 2, 3)]


def test_from_the_base_model_the_policy_is_the_mean_itself() -> None:
    adapter, head, error = average(UPDATES, None, None, PLAN)
    for name, array in adapter.b.items():
        assert np.allclose(array, np.mean([an_adapter(s).b[name] for s in (1, 2, 3)], axis=0), atol=1e-6)
    assert np.allclose(head.weights, np.mean([a_head(s) for s in (1, 2, 3)], axis=0), atol=1e-6)
    assert (head.layer, head.dim) == (PLAN.head_layer, HEAD_DIM)
    assert 0.0 <= error <= 1e-6


def test_the_mean_is_added_to_the_parent() -> None:
    parent, parent_head = an_adapter(9), RewardHead(a_head(9), PLAN.head_layer, BASE_MODEL)
    adapter, head, _ = average(UPDATES, parent, parent_head, PLAN)
    mean, mean_head, _ = average(UPDATES, None, None, PLAN)
    assert all(np.allclose(adapter.b[n], parent.b[n] + mean.b[n], atol=1e-6) for n in parent.b)
    assert np.allclose(head.weights, parent_head.weights + mean_head.weights, atol=1e-6)


def test_nothing_to_average_fails_the_round() -> None:
    with pytest.raises(RoundFailed):
        average([], None, None, PLAN)


def test_a_parent_of_another_model_is_refused() -> None:
    with pytest.raises(VerificationFailed):
        average(UPDATES, Adapter.zero(SHAPE, "6b" * 32), None, PLAN)
