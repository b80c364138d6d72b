"""What a server asks of each invited node in one round; signed, so that no one else can spend its epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedaigc.adapter import MAX_FEATURES, MAX_LAYER, AdapterShape, checked_base_model
from fedaigc.canonical import Json
from fedaigc.errors import VerificationFailed
from fedaigc.fields import Fields, fields_of
from fedaigc.identifiers import PolicyVersion, RoundId, round_id
from fedaigc.privacy_account import MAX_STEPS, Mechanism
from fedaigc.signing import PublicKey, SigningKey
from fedaigc.wire import open_message, seal_message

PURPOSE = "round-plan"
ALGORITHM = "ffa-dp-dpo"
"""FFA-LoRA (A frozen), direct preference optimisation, noise added on the device."""

MAX_PLAN_BYTES = 128 << 10
MAX_DEVICE_PAIRS = 1024
"""No device keeps more pairs, so that the length of an honest update is bounded by public numbers."""


@dataclass(frozen=True)
class StepPlan:
    """How one of the two models is trained: full-batch steps with per-pair clipping and Gaussian noise.

    Args:
        clip_norm: L2 limit of one pair's gradient, the sensitivity of the sum.
        noise_multiplier: standard deviation of the noise over `clip_norm`.
        steps: noised steps in the round.
        learning_rate: the L2 length that one step is expected to have, noise included (see `scale`).
    """

    clip_norm: float
    noise_multiplier: float
    steps: int
    learning_rate: float

    def __post_init__(self) -> None:
        fields = fields_of(dict(vars(self)), "step plan")
        fields.number("clip_norm", 1e-9, 1e6)
        fields.number("noise_multiplier", 1e-3, 1e6)
        fields.integer("steps", 1, MAX_STEPS)
        fields.number("learning_rate", 1e-9, 1e6)

    @property
    def mechanism(self) -> Mechanism:
        """What the steps cost: every pair is in every step."""
        return Mechanism(self.noise_multiplier, 1.0, self.steps)

    def scale(self, parameters: int, expected_pairs: int) -> float:
        """What the noised sum of clipped gradients is multiplied with; from public numbers only.

        With n = `expected_pairs` the clipped sum is at most n x clip_norm long and the noise about
        noise_multiplier x clip_norm x sqrt(parameters), so that a step is about `learning_rate` long whatever
        the noise, and the private count of pairs never enters as a denominator.
        """
        signal, noise = float(expected_pairs), self.noise_multiplier * math.sqrt(parameters)
        return self.learning_rate / (self.clip_norm * math.hypot(signal, noise))

    def longest(self, pairs: int, parameters: int, expected_pairs: int) -> float:
        """A length that all steps together pass with negligible probability, for at most `pairs` pairs."""
        # A chi-distributed norm is sqrt(parameters) + 6 only once in 10**8 draws.
        reach = pairs + self.noise_multiplier * (math.sqrt(parameters) + 6.0)
        return self.steps * self.scale(parameters, expected_pairs) * self.clip_norm * reach

    def to_json(self) -> dict[str, Json]:
        """The plan as a JSON object."""
        return dict(vars(self))

    @classmethod
    def from_fields(cls, fields: Fields) -> StepPlan:
        """Read `to_json`; raises VerificationFailed."""
        fields.only("clip_norm", "noise_multiplier", "steps", "learning_rate")
        return cls(
            fields.number("clip_norm"),
            fields.number("noise_multiplier"),
            fields.integer("steps"),
            fields.number("learning_rate"),
        )


@dataclass(frozen=True)
class RoundPlan:
    """One round's task.

    Args:
        round: its id; a device does a round once.
        parent: the policy version that training starts from; 0 is the base model.
        base_model: BLAKE3 of the model that the cohort serves, hexadecimal.
        shape: the adapter's slots, rank and alpha.
        head_layer, head_dim: the hidden layer that the reward head reads, and its width.
        head, lora: how the reward head and the adapter are trained.
        min_pairs: a device with fewer pairs takes no part.
        expected_pairs: the public denominator; not this device's count.
        deadline: Unix seconds after which no update counts.
    """

    round: RoundId
    parent: PolicyVersion
    base_model: str
    shape: AdapterShape
    head_layer: int
    head_dim: int
    head: StepPlan
    lora: StepPlan
    min_pairs: int
    expected_pairs: int
    deadline: int
    algorithm: str = ALGORITHM

    def __post_init__(self) -> None:
        round_id(self.round)
        checked_base_model(self.base_model)
        fields = fields_of(dict(vars(self)), "round plan")
        fields.integer("parent")
        fields.integer("head_layer", 0, MAX_LAYER)
        fields.integer("head_dim", 1, MAX_FEATURES)
        fields.integer("min_pairs", 1, MAX_DEVICE_PAIRS)
        fields.integer("expected_pairs", 1, MAX_DEVICE_PAIRS)
        fields.integer("deadline")
        if self.algorithm != ALGORITHM:
            raise VerificationFailed(
                "The round asks for an unknown algorithm", f"this node knows {ALGORITHM}", "update this node"
            )

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """What the whole round costs each pair: the reward head's steps, then the adapter's."""
        return (self.head.mechanism, self.lora.mechanism)

    def signed(self, release_key: SigningKey) -> bytes:
        """The plan as a signed message."""
        record = {
            **vars(self),
            "v": 1,
            "shape": self.shape.to_json(),
            "head": self.head.to_json(),
            "lora": self.lora.to_json(),
        }
        return seal_message(PURPOSE, record, release_key)

    @classmethod
    def open(cls, data: bytes, release_public: PublicKey) -> RoundPlan:
        """The plan in a message signed with the release key; raises VerificationFailed."""
        fields, _ = open_message(PURPOSE, data, release_public, MAX_PLAN_BYTES)
        fields.only("v", *cls.__dataclass_fields__)
        fields.integer("v", 1, 1)
        return cls(
            round=round_id(fields.text("round")),
            parent=PolicyVersion(fields.integer("parent")),
            base_model=fields.hexadecimal("base_model"),
            shape=AdapterShape.from_json(fields.record["shape"]),
            head_layer=fields.integer("head_layer"),
            head_dim=fields.integer("head_dim"),
            head=StepPlan.from_fields(fields.inner("head")),
            lora=StepPlan.from_fields(fields.inner("lora")),
            min_pairs=fields.integer("min_pairs"),
            expected_pairs=fields.integer("expected_pairs"),
            deadline=fields.integer("deadline"),
            algorithm=fields.text("algorithm"),
        )
