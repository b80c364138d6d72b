"""Nothing that a node claims is counted before it was checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaigc.adapter import Adapter, AdapterShape
from fedaigc.errors import UpdateRefused
from fedaigc.identifiers import NodeId, PolicyVersion, new_round_id
from fedaigc.privacy_account import Mechanism, epsilon, least_epsilon
from fedaigc.signing import SigningKey
from fedaigc.update import NodeUpdate
from fedaigc_server.rounds.admit import admit
from tests.learning_values import BASE_MODEL, NODE, SHAPE, a_head, a_plan, an_adapter, an_update

KEY = SigningKey.generate()
PLAN = a_plan()
GOOD = an_update(PLAN)


def _refusal(update: NodeUpdate, spent_before: float = 0.0) -> str:
    with pytest.raises(UpdateRefused) as caught:
        admit(update.signed(KEY), PLAN, KEY.public, NODE, spent_before)
    return caught.value.why


def _with_arrays(delta: Adapter) -> NodeUpdate:
    return replace(GOOD, adapter_delta=delta, moved=delta.norm)


def test_an_honest_update_is_admitted() -> None:
    assert admit(GOOD.signed(KEY), PLAN, KEY.public, NODE).moved == GOOD.moved


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"round": new_round_id()}, "round"),
        ({"node": NodeId("n-1111111111111111")}, "node"),
        ({"parent": PolicyVersion(1)}, "parent"),
        ({"mechanisms": (Mechanism(9.0, 1.0, 1),)}, "mechanisms"),
        ({"mechanisms": (Mechanism(90.0, 1.0, 1),) * 2}, "mechanisms"),
        ({"delta": 1e-3}, "mechanisms"),
        ({"epsilon_spent": 2.001}, "passed epsilon"),
        ({"epsilon_spent": 0.1}, "lower than it can be"),
        ({"moved": 0.0}, "another length"),
        ({"moved": 7.0}, "another length"),
        ({"head_delta": a_head(1)[:3]}, "another size"),
        ({"head_delta": 0 * a_head(1)}, "did not move"),
        ({"head_delta": a_head(1, 1e4)}, "longer than"),
    ],
)
def test_an_update_that_does_not_belong_or_lies_is_refused(change: dict[str, Any], word: str) -> None:
    assert word in _refusal(replace(GOOD, **change))


def test_another_model_or_shape_is_refused() -> None:
    other = Adapter(SHAPE, "6b" * 32, an_adapter(1).b)
    assert "base model" in _refusal(replace(GOOD, base_model="6b" * 32, adapter_delta=other))
    small = AdapterShape(2, 8.0, SHAPE.slots)
    assert "adapter shape" in _refusal(_with_arrays(an_adapter(1, shape=small)))


def test_a_dead_part_is_refused_though_the_rest_moved() -> None:
    b = dict(an_adapter(1).b)
    b["layers.1.v_proj"] = np.zeros_like(b["layers.1.v_proj"])
    assert "did not move" in _refusal(_with_arrays(Adapter(SHAPE, BASE_MODEL, b)))


def test_an_update_far_longer_than_the_noise_is_refused() -> None:
    assert "longer than" in _refusal(_with_arrays(an_adapter(1, length=1e4)))


def test_an_account_that_went_back_is_refused() -> None:
    spent = GOOD.epsilon_spent
    assert admit(GOOD.signed(KEY), PLAN, KEY.public, NODE, spent_before=spent).epsilon_spent == spent
    assert "lower than it can be" in _refusal(GOOD, spent_before=spent + 0.01)
    assert spent > least_epsilon(PLAN.mechanisms)


def test_an_account_below_what_all_admitted_updates_cost_together_is_refused() -> None:
    earlier = PLAN.mechanisms * 3
    whole = epsilon([*earlier, *PLAN.mechanisms])
    honest = replace(GOOD, epsilon_spent=whole)
    # A forgetful device reports this round's cost only, a cunning one just the largest that it ever reported.
    for claimed in (GOOD.epsilon_spent, epsilon(earlier)):
        forgot = replace(GOOD, epsilon_spent=claimed).signed(KEY)
        with pytest.raises(UpdateRefused, match=r"lower than it can be.*leave --erase"):
            admit(forgot, PLAN, KEY.public, NODE, epsilon(earlier), earlier)
    assert admit(honest.signed(KEY), PLAN, KEY.public, NODE, epsilon(earlier), earlier).epsilon_spent == whole


def test_another_key_a_changed_byte_and_a_bloated_message_are_refused() -> None:
    data = GOOD.signed(KEY)
    with pytest.raises(UpdateRefused, match="signature"):
        admit(data, PLAN, SigningKey.generate().public, NODE)
    with pytest.raises(UpdateRefused):
        admit(data[:-1] + b"\xff", PLAN, KEY.public, NODE)
    with pytest.raises(UpdateRefused, match="larger than"):
        admit(data + bytes(600 << 10), PLAN, KEY.public, NODE)
