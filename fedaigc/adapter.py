"""A LoRA adapter as named arrays: A frozen and the same everywhere, B trained (FFA-LoRA), and their product.

The weight that an adapter adds to a projection is `scaling * B @ A`, (out_features, in_features). Because A
never changes and is derived from the base model's hash, only B travels, the mean of adapters is exact, and
noise on B is never multiplied by noise on A.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from blake3 import blake3

from fedaigc.arrays import MAX_ARRAY_BYTES, FloatArray, arrays_from_bytes, arrays_to_bytes
from fedaigc.canonical import Json
from fedaigc.errors import VerificationFailed
from fedaigc.fields import Fields, fields_of

MAX_RANK = 256
MAX_SLOTS = 512
MAX_FEATURES = 1 << 17
MAX_LAYER = 1 << 10
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The linear projections of Llama and Qwen layers that can carry a slot."""

BASE_MODEL_DIGITS = 64
_FROZEN_A = "fedaigc/frozen-a/v1/"


@dataclass(frozen=True)
class AdapterSlot:
    """One projection of one layer that an adapter changes; features are counts of the projection's matrix."""

    layer: int
    projection: str
    in_features: int
    out_features: int

    def __post_init__(self) -> None:
        fields = Fields(vars(self), "adapter slot")
        fields.integer("layer", 0, MAX_LAYER)
        fields.integer("in_features", 1, MAX_FEATURES)
        fields.integer("out_features", 1, MAX_FEATURES)
        if self.projection not in PROJECTIONS:
            raise VerificationFailed("Unknown projection", f"known are {', '.join(PROJECTIONS)}", "use one")

    @property
    def name(self) -> str:
        """Its name in files and messages, for example `layers.28.q_proj`."""
        return f"layers.{self.layer}.{self.projection}"

    def to_json(self) -> dict[str, Json]:
        """The slot as a JSON object."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, value: Json) -> AdapterSlot:
        """Read `to_json`; raises VerificationFailed."""
        fields = fields_of(value, "adapter slot")
        fields.only("layer", "projection", "in_features", "out_features")
        return cls(
            fields.integer("layer"),
            fields.text("projection"),
            fields.integer("in_features"),
            fields.integer("out_features"),
        )


@dataclass(frozen=True)
class AdapterShape:
    """Which slots an adapter has, its rank and its alpha; adapters of one shape can be added and averaged."""

    rank: int
    alpha: float
    slots: tuple[AdapterSlot, ...]

    def __post_init__(self) -> None:
        fields = Fields(vars(self), "adapter shape")
        fields.integer("rank", 1, MAX_RANK)
        fields.number("alpha", 1e-6, 1e6)
        names = {slot.name for slot in self.slots}
        if not self.slots or len(self.slots) > MAX_SLOTS or len(names) != len(self.slots):
            raise VerificationFailed(
                "adapter shape: slots are wrong",
                f"1 to {MAX_SLOTS} different slots are needed",
                "correct them",
            )

    @property
    def scaling(self) -> float:
        """alpha / rank: the factor of the product B @ A."""
        return self.alpha / self.rank

    @property
    def trained_parameters(self) -> int:
        """How many numbers B holds over all slots: what is clipped, noised and sent."""
        return sum(self.rank * slot.out_features for slot in self.slots)

    @property
    def frozen_parameters(self) -> int:
        """How many numbers A holds over all slots: derived, never sent."""
        return sum(self.rank * slot.in_features for slot in self.slots)

    def to_json(self) -> dict[str, Json]:
        """The shape as a JSON object."""
        return {"rank": self.rank, "alpha": self.alpha, "slots": [slot.to_json() for slot in self.slots]}

    @classmethod
    def from_json(cls, value: Json) -> AdapterShape:
        """Read `to_json`; raises VerificationFailed."""
        fields = fields_of(value, "adapter shape")
        fields.only("rank", "alpha", "slots")
        slots = tuple(AdapterSlot.from_json(item) for item in fields.listed("slots", MAX_SLOTS))
        return cls(fields.integer("rank"), fields.number("alpha"), slots)


def frozen_a(shape: AdapterShape, base_model: str) -> dict[str, FloatArray]:
    """The frozen factor A of every slot: name -> (rank, in_features) float32, the same everywhere for ever.

    Recipe: BLAKE3 keyed with the base model's 32-byte hash over `fedaigc/frozen-a/v1/` and the slot's name,
    extended to 4 bytes a number; the upper 24 bits u of each little-endian 32-bit word give
    (2u / 2**24 - 1) / sqrt(in_features) in double precision, rounded to float32: PEFT's Kaiming-uniform with
    a = sqrt(5). Row r does not depend on the rank, so a lower rank is a prefix of a higher one.
    """
    key = bytes.fromhex(checked_base_model(base_model))
    return {slot.name: _frozen_slot(slot, shape.rank, key) for slot in shape.slots}


def _frozen_slot(slot: AdapterSlot, rank: int, key: bytes) -> FloatArray:
    count = rank * slot.in_features
    stream = blake3((_FROZEN_A + slot.name).encode("ascii"), key=key).digest(length=4 * count)
    uniform = (np.frombuffer(stream, dtype="<u4") >> np.uint32(8)).astype(np.float64) / 2.0**24
    values = (2.0 * uniform - 1.0) / np.sqrt(np.float64(slot.in_features))
    factor: FloatArray = values.astype(np.float32).reshape(rank, slot.in_features)
    return factor


def checked_base_model(base_model: str) -> str:
    """`base_model` itself; raises VerificationFailed unless it is a BLAKE3 in lower-case hexadecimal."""
    return Fields({"base_model": base_model}, "adapter").hexadecimal("base_model", BASE_MODEL_DIGITS)


@dataclass(frozen=True, eq=False)
class Adapter:
    """The trained factor B of every slot for one base model; arrays are read-only.

    Args:
        shape: the slots, rank and alpha.
        base_model: BLAKE3 of the base model, hexadecimal.
        b: slot name -> (out_features, rank) float32, finite. Raises VerificationFailed otherwise.
    """

    shape: AdapterShape
    base_model: str
    b: Mapping[str, FloatArray]

    def __post_init__(self) -> None:
        checked_base_model(self.base_model)
        if set(self.b) != {slot.name for slot in self.shape.slots}:
            raise _misfit("its slots differ from its shape")
        own: dict[str, FloatArray] = {}
        for slot in self.shape.slots:
            array = np.array(self.b[slot.name], dtype=np.float32)
            if array.shape != (slot.out_features, self.shape.rank) or not np.isfinite(array).all():
                raise _misfit(f"{slot.name} has the wrong shape or a number that is not finite")
            array.setflags(write=False)
            own[slot.name] = array
        object.__setattr__(self, "b", MappingProxyType(own))

    @classmethod
    def zero(cls, shape: AdapterShape, base_model: str) -> Adapter:
        """The adapter that changes nothing: policy version 0."""
        empty = {
            slot.name: np.zeros((slot.out_features, shape.rank), dtype=np.float32) for slot in shape.slots
        }
        return cls(shape, base_model, empty)

    @property
    def scaling(self) -> float:
        """alpha / rank."""
        return self.shape.scaling

    @property
    def norm(self) -> float:
        """The L2 norm of B over all slots together."""
        return float(np.sqrt(sum(float(np.square(a, dtype=np.float64).sum()) for a in self.b.values())))

    def add(self, delta: Adapter) -> Adapter:
        """This adapter with `delta` added; raises VerificationFailed when base model or shape differ."""
        self.require_same_kind(delta)
        return Adapter(self.shape, self.base_model, {name: self.b[name] + delta.b[name] for name in self.b})

    def subtract(self, other: Adapter) -> Adapter:
        """The delta that leads from `other` to this adapter; raises VerificationFailed like `add`."""
        self.require_same_kind(other)
        return Adapter(self.shape, self.base_model, {name: self.b[name] - other.b[name] for name in self.b})

    def products(self) -> dict[str, FloatArray]:
        """What the adapter adds to the base: slot name -> scaling * B @ A, (out_features, in_features)."""
        factors = frozen_a(self.shape, self.base_model)
        return {name: np.float32(self.scaling) * (self.b[name] @ factors[name]) for name in self.b}

    def require_same_kind(self, other: Adapter) -> None:
        """Raise VerificationFailed unless `other` fits the same base model and shape."""
        if self.base_model != other.base_model:
            raise _misfit("two adapters are for different base models")
        if self.shape != other.shape:
            raise _misfit("two adapters have different shapes")

    def to_bytes(self) -> bytes:
        """One safetensors file holding B, the shape and the base model; equal adapters give equal bytes."""
        about = {"v": 1, "kind": "adapter", "base_model": self.base_model, "shape": self.shape.to_json()}
        return arrays_to_bytes(self.b, about)

    @classmethod
    def from_bytes(cls, data: bytes) -> Adapter:
        """Read `to_bytes`, at most 64 MiB; raises VerificationFailed when anything does not fit."""
        arrays, about = arrays_from_bytes(data, MAX_ARRAY_BYTES)
        fields = Fields(about, "adapter file")
        fields.only("v", "kind", "base_model", "shape")
        if fields.integer("v") != 1 or fields.text("kind") != "adapter":
            raise _misfit("the file is not an adapter of version 1")
        return cls(AdapterShape.from_json(about["shape"]), fields.hexadecimal("base_model"), arrays)


def _misfit(why: str) -> VerificationFailed:
    return VerificationFailed("An adapter does not fit", why, "export the model again, or update this side")
