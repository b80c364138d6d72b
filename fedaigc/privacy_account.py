"""Compose privacy spends and refuse one that would pass the limit.

The unit is one *pair* (chosen, rejected) on one device, under add or remove: two sets of feedback are
neighbours when one of them has one pair more. Ten pairs of one person are therefore ten units; this is no
person-level claim. All mechanisms that ever ran on a device compose, over all rounds and over the reward head
and the adapter, as if every pair had been in every round.

>>> round(epsilon([Mechanism(noise_multiplier=9.0, sample_rate=1.0, steps=20)], DELTA), 2)
1.98
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedaigc.canonical import Json
from fedaigc.errors import PrivacyBudgetExceeded
from fedaigc.fields import fields_of

EPSILON_LIMIT = 2.0
"""What one device may spend in all, at DELTA."""

DELTA = 1e-5
"""The probability with which the epsilon bound may fail."""

MAX_STEPS = 10_000
_TINY_NOISE = 1e-3


@dataclass(frozen=True)
class Mechanism:
    """Gaussian noise of `noise_multiplier` x sensitivity on a sum over pairs, taken `steps` times.

    `sample_rate` is the probability with which each pair enters a step; 1.0 is the full batch. Raises
    VerificationFailed for values outside their range.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int

    def __post_init__(self) -> None:
        fields = fields_of(dict(vars(self)), "mechanism")
        fields.number("noise_multiplier", _TINY_NOISE, 1e6)
        fields.number("sample_rate", 1e-9, 1.0)
        fields.integer("steps", 1, MAX_STEPS)

    def to_json(self) -> dict[str, Json]:
        """The mechanism as a JSON object."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, value: Json) -> Mechanism:
        """Read `to_json`; raises VerificationFailed."""
        fields = fields_of(value, "mechanism")
        fields.only("noise_multiplier", "sample_rate", "steps")
        return cls(
            fields.number("noise_multiplier"),
            fields.number("sample_rate"),
            fields.integer("steps", 1, MAX_STEPS),
        )


def epsilon(mechanisms: Iterable[Mechanism], delta: float = DELTA) -> float:
    """The epsilon of all `mechanisms` together at `delta`; never below the true one; 0.0 for none.

    By privacy loss distributions (dp-accounting), neighbours by adding or removing one pair.
    """
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    account = PLDAccountant()
    spent = False
    for noise_multiplier, sample_rate, steps in _merged(mechanisms):
        event = GaussianDpEvent(noise_multiplier)
        account.compose(event if sample_rate == 1.0 else PoissonSampledDpEvent(sample_rate, event), steps)
        spent = True
    return float(account.get_epsilon(delta)) if spent else 0.0


def _merged(mechanisms: Iterable[Mechanism]) -> list[tuple[float, float, int]]:
    """Equal mechanisms joined, and all full-batch ones as the one Gaussian that they are together.

    A composition of Gaussians is a Gaussian: precisions (1 / noise**2) add. So the account is as quick after
    a thousand rounds as after one.
    """
    precision = 0.0
    sampled: dict[tuple[float, float], int] = {}
    for mechanism in mechanisms:
        if mechanism.sample_rate == 1.0:
            precision += mechanism.steps / mechanism.noise_multiplier**2
        else:
            kind = (mechanism.noise_multiplier, mechanism.sample_rate)
            sampled[kind] = sampled.get(kind, 0) + mechanism.steps
    full = [(1.0 / math.sqrt(precision), 1.0, 1)] if precision else []
    return full + [(noise, rate, steps) for (noise, rate), steps in sorted(sampled.items())]


def least_epsilon(mechanisms: Iterable[Mechanism], delta: float = DELTA) -> float:
    """A lower bound of `epsilon` without any library: the exact value over the full-batch mechanisms alone.

    For a side that must not believe a claimed spend below what the mechanisms cost (Balle and Wang 2018,
    theorem 8).
    """
    full = [entry for entry in _merged(mechanisms) if entry[1] == 1.0]
    if not full:
        return 0.0
    noise = full[0][0]
    low, high = 0.0, 1.0
    while _gaussian_delta(high, noise) > delta:
        high *= 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _gaussian_delta(middle, noise) > delta else (low, middle)
    return low


def _gaussian_delta(epsilon_value: float, noise: float) -> float:
    def normal(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2.0))

    tail = normal(-epsilon_value * noise - 0.5 / noise)
    # e**epsilon overflows long after the tail has become nothing.
    lifted = math.exp(min(epsilon_value + math.log(tail), 700.0)) if tail > 0.0 else 0.0
    return normal(0.5 / noise - epsilon_value * noise) - lifted


def check_room(
    spent: Sequence[Mechanism],
    planned: Sequence[Mechanism],
    limit: float = EPSILON_LIMIT,
    delta: float = DELTA,
) -> float:
    """The epsilon after `planned`, which fits the limit; call it before any data is read.

    Raises PrivacyBudgetExceeded when it does not fit.
    """
    after = epsilon([*spent, *planned], delta)
    if not after <= limit:
        raise PrivacyBudgetExceeded(
            "The round would pass the privacy limit",
            f"epsilon would be {after:.3f} of {limit:g} at delta {delta:g}",
            "this device keeps serving and receiving policies; it learns no more from the feedback it holds",
        )
    return after
