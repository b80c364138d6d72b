"""The reward head: one weight per feature of a response's mean hidden state; its score ranks answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedaigc.adapter import MAX_FEATURES, MAX_LAYER, checked_base_model
from fedaigc.arrays import FloatArray, arrays_from_bytes, arrays_to_bytes
from fedaigc.errors import VerificationFailed
from fedaigc.fields import Fields

POOL = "mean"
"""Features are the mean over a response's tokens; measured better than the last token at every layer."""

MAX_HEAD_BYTES = 4 << 20
_WEIGHTS = "weights"


@dataclass(frozen=True, eq=False)
class RewardHead:
    """A linear head without bias: only differences of scores matter.

    Args:
        weights: (dim,) float32, finite, read-only. Raises VerificationFailed otherwise.
        layer: how many decoder layers lie below the hidden state that it reads.
        base_model: BLAKE3 of the base model, hexadecimal.
    """

    weights: FloatArray
    layer: int
    base_model: str
    pool: str = POOL

    def __post_init__(self) -> None:
        checked_base_model(self.base_model)
        Fields({"layer": self.layer}, "reward head").integer("layer", 0, MAX_LAYER)
        weights = np.array(self.weights, dtype=np.float32)
        if weights.ndim != 1 or not 1 <= weights.size <= MAX_FEATURES or not np.isfinite(weights).all():
            raise _misfit("its weights are not a finite vector")
        if self.pool != POOL:
            raise _misfit(f"its pool is not {POOL}")
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)

    @classmethod
    def zero(cls, dim: int, layer: int, base_model: str) -> RewardHead:
        """The head that likes every answer equally: policy version 0."""
        return cls(np.zeros(dim, dtype=np.float32), layer, base_model)

    @property
    def dim(self) -> int:
        """The number of features."""
        return int(self.weights.size)

    def score(self, features: FloatArray) -> FloatArray:
        """The scores of `features`, (n, dim) -> (n,); the higher, the better. Raises VerificationFailed."""
        if features.ndim != 2 or features.shape[1] != self.dim:
            raise _misfit(f"it reads {self.dim} features")
        scores: FloatArray = (features @ self.weights).astype(np.float32)
        return scores

    def add(self, delta: FloatArray) -> RewardHead:
        """This head with `delta`, (dim,), added; raises VerificationFailed when the size differs."""
        if delta.shape != self.weights.shape:
            raise _misfit(f"a change of {delta.size} numbers is not for {self.dim}")
        return RewardHead(self.weights + delta, self.layer, self.base_model)

    def to_bytes(self) -> bytes:
        """One safetensors file; equal heads give equal bytes."""
        about = {
            "v": 1,
            "kind": "head",
            "base_model": self.base_model,
            "layer": self.layer,
            "pool": self.pool,
        }
        return arrays_to_bytes({_WEIGHTS: self.weights}, about)

    @classmethod
    def from_bytes(cls, data: bytes) -> RewardHead:
        """Read `to_bytes`, at most 4 MiB; raises VerificationFailed."""
        arrays, about = arrays_from_bytes(data, MAX_HEAD_BYTES)
        fields = Fields(about, "reward head file")
        fields.only("v", "kind", "base_model", "layer", "pool")
        if fields.integer("v") != 1 or fields.text("kind") != "head" or set(arrays) != {_WEIGHTS}:
            raise _misfit("the file is not a reward head of version 1")
        return cls(
            arrays[_WEIGHTS], fields.integer("layer"), fields.hexadecimal("base_model"), fields.text("pool")
        )


def _misfit(why: str) -> VerificationFailed:
    return VerificationFailed(
        "A reward head does not fit", why, "fetch the policy again, or update this side"
    )
