"""What rounds ask of the devices: clipping, noise and step lengths, all of them public constants."""

from __future__ import annotations

from dataclasses import dataclass

from fedaigc.errors import VerificationFailed
from fedaigc.privacy_account import EPSILON_LIMIT, least_epsilon
from fedaigc.round_plan import StepPlan


@dataclass(frozen=True)
class LearningSettings:
    """The keys of `[learning]` in `configs/server.toml`.

    By default a round costs two full-batch steps at noise 9; ten rounds cost epsilon 1.98 at delta 1e-5.
    """

    min_pairs: int = 8
    """Judged pairs below which a device takes no part."""
    expected_pairs: int = 32
    """The public denominator of every mean; a device never divides by how many pairs it has."""

    head_clip_norm: float = 0.5
    """The gradient of a pair is at most this long; 0.5 is its length for a new head, so nothing is lost."""
    head_noise_multiplier: float = 9.0
    """Noise over clip norm for the reward head."""
    head_steps: int = 1
    """Noised steps of the reward head in a round."""
    head_learning_rate: float = 1.0
    """How long one step of the reward head is, noise included; only the order of scores matters."""

    lora_clip_norm: float = 0.3
    """About the median length of a pair's gradient on SmolLM2-135M with four adapted layers."""
    lora_noise_multiplier: float = 9.0
    """Noise over clip norm for the adapter."""
    lora_steps: int = 1
    """Noised steps of the adapter in a round."""
    lora_learning_rate: float = 20.0
    """How long one step of B is, noise included: at 20 answers stay fluent, at 160 they break."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_pairs <= 1024 or not 1 <= self.expected_pairs <= 1024:
            raise ValueError("min_pairs and expected_pairs must be from 1 to 1024")  # caught by settings_from
        try:
            mechanisms = [self.head.mechanism, self.lora.mechanism]
        except VerificationFailed as error:
            raise ValueError(str(error)) from None  # caught by settings_from
        if least_epsilon(mechanisms) > EPSILON_LIMIT:
            # No device could take part in even one such round.
            raise ValueError(
                f"one round would cost more than epsilon {EPSILON_LIMIT:g}"
            )  # caught by settings_from

    @property
    def head(self) -> StepPlan:
        """How the reward head is trained."""
        return StepPlan(
            self.head_clip_norm, self.head_noise_multiplier, self.head_steps, self.head_learning_rate
        )

    @property
    def lora(self) -> StepPlan:
        """How the adapter is trained."""
        return StepPlan(
            self.lora_clip_norm, self.lora_noise_multiplier, self.lora_steps, self.lora_learning_rate
        )
