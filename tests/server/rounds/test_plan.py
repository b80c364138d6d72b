"""The cohort is the largest group that can be averaged; everyone else is left out with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedaigc.adapter import AdapterShape
from fedaigc.errors import RoundFailed, VerificationFailed
from fedaigc.identifiers import NodeId, PolicyVersion
from fedaigc.manifest import PolicyManifest
from fedaigc.round_plan import RoundPlan
from fedaigc.signing import SigningKey
from fedaigc_server.rounds.learning_settings import LearningSettings
from fedaigc_server.rounds.plan import NodeStatus, choose_cohort, plan_round
from tests.learning_values import BASE_MODEL, HEAD_DIM, ROUND, SHAPE

KEY = SigningKey.generate()
SETTINGS = LearningSettings()
ANSWER = {
    "node": "n-0000000000000001",
    "base_model": BASE_MODEL,
    "shape": SHAPE.to_json(),
    "head_layer": 20,
    "head_dim": HEAD_DIM,
    "pairs_new": 16,
    "epsilon_spent": "0.557494",
    "epsilon_left": "1.442506",
    "policy": 0,
}
PARENT = PolicyManifest(
    version=PolicyVersion(1),
    parent=PolicyVersion(0),
    parent_manifest="",
    base_model=BASE_MODEL,
    adapter="cd" * 32,
    head="ef" * 32,
    round=ROUND,
    updates=2,
    epsilon_max=0.5,
    minute=1,
)


def _status(number: int, **changes: Any) -> NodeStatus:
    return replace(NodeStatus.from_json(ANSWER), node=NodeId(f"n-{number:016x}"), **changes)


def test_the_plan_is_signed_and_carries_the_settings_and_the_group_s_model() -> None:
    plan_bytes, invited = plan_round(ROUND, None, [_status(2), _status(1)], SETTINGS, KEY, 1000, 1600)
    plan = RoundPlan.open(plan_bytes, KEY.public)
    assert invited == (_status(1).node, _status(2).node)
    assert (plan.round, plan.parent, plan.deadline) == (ROUND, 0, 1600)
    assert (plan.base_model, plan.shape) == (BASE_MODEL, SHAPE)
    assert (plan.head_layer, plan.head_dim) == (20, HEAD_DIM)
    assert (plan.head, plan.lora) == (SETTINGS.head, SETTINGS.lora)
    assert (plan.min_pairs, plan.expected_pairs) == (SETTINGS.min_pairs, SETTINGS.expected_pairs)


def test_the_largest_group_wins_and_the_rest_is_told_why() -> None:
    other_shape = AdapterShape(2, 8.0, SHAPE.slots)
    statuses = [_status(1), _status(2), _status(3, base_model="6b" * 32), _status(4, shape=other_shape)]
    cohort = choose_cohort(None, statuses, SETTINGS)
    assert [status.node for status in cohort.invited] == [_status(1).node, _status(2).node]
    assert set(cohort.left_out) == {_status(3).node, _status(4).node}
    assert all("another model" in reason for reason in cohort.left_out.values())


def test_a_node_that_cannot_take_part_is_left_out_with_its_reason() -> None:
    statuses = [
        _status(1, pairs_new=4),
        _status(2, epsilon_left=0.0),
        _status(3, policy=PolicyVersion(7)),
        _status(4),
    ]
    cohort = choose_cohort(None, statuses, SETTINGS)
    assert [status.node for status in cohort.invited] == [_status(4).node]
    reasons = [cohort.left_out[_status(number).node] for number in (1, 2, 3)]
    for reason, word in zip(reasons, ("judged pairs", "used up", "policy 7"), strict=True):
        assert word in reason


def test_nodes_must_have_the_parent_and_its_base_model() -> None:
    statuses = [
        _status(1, policy=PolicyVersion(1)),
        _status(2),
        _status(3, policy=PolicyVersion(1), base_model="6b" * 32),
    ]
    cohort = choose_cohort(PARENT, statuses, SETTINGS)
    assert [status.node for status in cohort.invited] == [_status(1).node]
    plan_bytes, _ = plan_round(ROUND, PARENT, statuses, SETTINGS, KEY, 0, 10)
    assert RoundPlan.open(plan_bytes, KEY.public).parent == 1


def test_equal_groups_are_decided_the_same_way_whatever_the_order() -> None:
    statuses = [_status(1), _status(2, base_model="6b" * 32)]
    both = [choose_cohort(None, order, SETTINGS).invited for order in (statuses, statuses[::-1])]
    assert both[0] == both[1]


def test_a_round_without_able_nodes_or_time_fails_and_says_why() -> None:
    with pytest.raises(RoundFailed, match="No node can take part") as caught:
        plan_round(ROUND, None, [_status(1, pairs_new=0)], SETTINGS, KEY, 0, 10)
    assert "judged pairs" in caught.value.why
    with pytest.raises(RoundFailed):
        plan_round(ROUND, None, [], SETTINGS, KEY, 0, 10)
    with pytest.raises(RoundFailed, match="time is over"):
        plan_round(ROUND, None, [_status(1)], SETTINGS, KEY, 10, 10)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon_left": "nan"},
        {"epsilon_left": "-1"},
        {"epsilon_left": 1.0},
        {"pairs_new": -1},
        {"policy": "1"},
        {"node": "x"},
        {"shape": {}},
        {"head_dim": 0},
        {"prompt": "secret"},
    ],
)
def test_a_malformed_status_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(VerificationFailed):
        NodeStatus.from_json({**ANSWER, **change})
