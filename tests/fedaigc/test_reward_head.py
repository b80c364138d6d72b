"""The reward head scores by one dot product and travels unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.reward_head import RewardHead
from tests.learning_values import BASE_MODEL, HEAD_DIM, a_head, an_adapter


def test_scores_are_dot_products() -> None:
    head = RewardHead(a_head(1), 20, BASE_MODEL)
    features = np.random.default_rng(1).standard_normal((5, HEAD_DIM)).astype(np.float32)
    assert np.allclose(head.score(features), features @ a_head(1), atol=1e-6)
    assert not RewardHead.zero(HEAD_DIM, 20, BASE_MODEL).score(features).any()


def test_a_head_survives_its_file() -> None:
    head = RewardHead(a_head(1), 20, BASE_MODEL)
    again = RewardHead.from_bytes(head.to_bytes())
    assert np.array_equal(again.weights, head.weights)
    assert (again.layer, again.base_model, again.pool) == (20, BASE_MODEL, "mean")
    assert again.to_bytes() == head.to_bytes()


def test_a_change_is_added() -> None:
    head = RewardHead(a_head(1), 20, BASE_MODEL).add(a_head(2))
    assert np.allclose(head.weights, a_head(1) + a_head(2))
    with pytest.raises(VerificationFailed):
        head.add(np.zeros(3, np.float32))


def test_what_is_no_head_is_refused() -> None:
    with pytest.raises(VerificationFailed):
        RewardHead(np.array([np.nan], np.float32), 20, BASE_MODEL)
    with pytest.raises(VerificationFailed):
        RewardHead(np.zeros((2, 2), np.float32), 20, BASE_MODEL)
    with pytest.raises(VerificationFailed):
        RewardHead(a_head(1), 20, BASE_MODEL, pool="last")
    with pytest.raises(VerificationFailed):
        RewardHead.from_bytes(an_adapter(1).to_bytes())
    with pytest.raises(VerificationFailed):
        RewardHead(a_head(1), 20, BASE_MODEL).score(np.zeros((1, 3), np.float32))
