"""A plan is obeyed only when the release key signed it, and every number in it has bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.privacy_account import Mechanism
from fedaigc.round_plan import RoundPlan, StepPlan
from fedaigc.signing import SigningKey
from fedaigc.wire import seal_message
from tests.learning_values import a_plan

KEY = SigningKey.generate()


def test_a_plan_survives_its_signed_bytes() -> None:
    assert RoundPlan.open(a_plan().signed(KEY), KEY.public) == a_plan()


def test_a_plan_of_another_key_is_refused() -> None:
    with pytest.raises(VerificationFailed):
        RoundPlan.open(a_plan().signed(SigningKey.generate()), KEY.public)


@pytest.mark.parametrize(
    "change",
    [
        {"min_pairs": 0},
        {"expected_pairs": 0},
        {"parent": -1},
        {"head_dim": 0},
        {"base_model": "xyz"},
        {"round": "r-1"},
        {"algorithm": "fed-avg"},
    ],
)
def test_a_plan_with_a_number_out_of_range_cannot_be_made(change: dict[str, Any]) -> None:
    with pytest.raises(VerificationFailed):
        replace(a_plan(), **change)


def test_a_signed_record_with_unknown_or_missing_fields_is_refused() -> None:
    record = {**vars(a_plan()), "v": 1}
    for name in ("shape", "head", "lora"):
        record[name] = record[name].to_json()
    assert RoundPlan.open(seal_message("round-plan", record, KEY), KEY.public) == a_plan()
    for wrong in (
        {**record, "extra": 1},
        {k: v for k, v in record.items() if k != "deadline"},
        {**record, "v": 2},
    ):
        with pytest.raises(VerificationFailed):
            RoundPlan.open(seal_message("round-plan", wrong, KEY), KEY.public)


@pytest.mark.parametrize(
    "numbers", [(0.0, 9.0, 1, 1.0), (1.0, 0.0, 1, 1.0), (1.0, 9.0, 0, 1.0), (1.0, 9.0, 1, 0.0)]
)
def test_a_step_without_clip_noise_or_length_cannot_be_made(numbers: tuple[float, float, int, float]) -> None:
    with pytest.raises(VerificationFailed):
        StepPlan(*numbers)


def test_the_plan_s_cost_is_that_of_both_its_parts() -> None:
    assert a_plan(noise=7.0).mechanisms == (Mechanism(7.0, 1.0, 1), Mechanism(7.0, 1.0, 1))


def test_a_noised_step_is_as_long_as_the_learning_rate_says() -> None:
    step = StepPlan(clip_norm=0.3, noise_multiplier=9.0, steps=1, learning_rate=20.0)
    noise = np.random.default_rng(1).standard_normal(24576) * 9.0 * 0.3
    length = step.scale(24576, expected_pairs=32) * np.linalg.norm(noise)
    assert length == pytest.approx(20.0, rel=0.02)


def test_no_honest_step_is_longer_than_the_bound() -> None:
    step = StepPlan(clip_norm=0.5, noise_multiplier=3.0, steps=2, learning_rate=1.0)
    draw, parameters, pairs = np.random.default_rng(1), 100, 50
    signal = np.zeros(parameters)
    signal[0] = pairs * step.clip_norm
    bound = step.longest(pairs, parameters, expected_pairs=8)
    for _ in range(200):
        noised = signal + 3.0 * 0.5 * draw.standard_normal(parameters)
        assert step.steps * step.scale(parameters, 8) * np.linalg.norm(noised) < bound
    assert math.isfinite(bound)
