"""The defaults let a device take part in ten rounds, and settings that cannot work are refused at once."""

from __future__ import annotations

from typing import Any

import pytest

from fedaigc.errors import SettingsError
from fedaigc.privacy_account import EPSILON_LIMIT, epsilon
from fedaigc.settings import settings_from
from fedaigc_server.rounds.learning_settings import LearningSettings


def test_ten_default_rounds_fit_epsilon_two_and_eleven_do_not() -> None:
    one = [LearningSettings().head.mechanism, LearningSettings().lora.mechanism]
    assert epsilon(one * 10) == pytest.approx(1.98, abs=0.005)
    assert epsilon(one * 11) > EPSILON_LIMIT


@pytest.mark.parametrize(
    "table",
    [
        {"min_pairs": 0},
        {"expected_pairs": 2000},
        {"head_clip_norm": 0.0},
        {"lora_noise_multiplier": 0.0},
        {"lora_noise_multiplier": 1.0},
        {"head_steps": 50},
        {"lora_steps": 0},
        {"lora_learning_rate": -1.0},
    ],
)
def test_settings_with_which_no_round_can_run_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="out of range"):
        settings_from(LearningSettings, table, "server.toml")


def test_keys_reach_the_plan_s_steps() -> None:
    settings = settings_from(
        LearningSettings, {"lora_learning_rate": 3.0, "head_clip_norm": 0.4}, "server.toml"
    )
    assert settings.lora.learning_rate == 3.0
    assert settings.head.clip_norm == 0.4
