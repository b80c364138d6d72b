"""Where a served graph takes an adapter: which inputs it has, and which slots lie where in them.

The graph keeps q, k and v fused, so one pair of inputs serves several slots: their A matrices stand side by
side, and each B fills the columns of its own projection, zero elsewhere. That costs a third of what a pair
a slot costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedaigc.adapter import Adapter, frozen_a
from fedaigc.arrays import FloatArray
from fedaigc.canonical import Json
from fedaigc.errors import ModelError
from fedaigc.fields import fields_of

MAX_PAIRS = 512
MAX_PARTS = 8


@dataclass(frozen=True)
class LoraPart:
    """One slot inside a pair: its name and the first column of its projection in the fused output."""

    slot: str
    offset: int
    out_features: int


@dataclass(frozen=True)
class LoraPair:
    """Two inputs of the graph: `a` (adapters, in_features, rank * parts) and `b` (adapters, rank * parts,
    out_features).

    `adapters` is 1, or the batch's size when its rows have adapters of their own.
    """

    a: str
    b: str
    in_features: int
    out_features: int
    parts: tuple[LoraPart, ...]

    def to_json(self) -> dict[str, Json]:
        """The pair as a JSON object."""
        return {**vars(self), "parts": [dict(vars(part)) for part in self.parts]}

    @classmethod
    def from_json(cls, value: Json) -> LoraPair:
        """Read `to_json`; raises VerificationFailed."""
        fields = fields_of(value, "lora pair")
        fields.only("a", "b", "in_features", "out_features", "parts")
        parts = []
        for item in fields.listed("parts", MAX_PARTS):
            part = fields_of(item, "lora part")
            part.only("slot", "offset", "out_features")
            parts.append(LoraPart(part.text("slot"), part.integer("offset"), part.integer("out_features", 1)))
        return cls(
            fields.text("a"),
            fields.text("b"),
            fields.integer("in_features", 1),
            fields.integer("out_features", 1),
            tuple(parts),
        )


def graph_inputs(adapter: Adapter, pairs: Sequence[LoraPair]) -> dict[str, FloatArray]:
    """The arrays that make the graph add `scaling * B @ A` to every slot: input name -> float32 (1, ., .).

    Raises ModelError when the adapter's slots are not those of the graph.
    """
    placed = [part.slot for pair in pairs for part in pair.parts]
    if sorted(placed) != sorted(adapter.b):
        raise ModelError(
            "An adapter does not fit this model's graph",
            "the graph has inputs for other slots",
            "export the model again with the adapter's layers",
        )
    frozen = frozen_a(adapter.shape, adapter.base_model)
    rank = adapter.shape.rank
    inputs: dict[str, FloatArray] = {}
    for pair in pairs:
        a = np.concatenate([frozen[part.slot] for part in pair.parts], axis=0).T
        b = np.zeros((rank * len(pair.parts), pair.out_features), dtype=np.float32)
        for number, part in enumerate(pair.parts):
            rows = slice(number * rank, (number + 1) * rank)
            columns = slice(part.offset, part.offset + part.out_features)
            b[rows, columns] = np.float32(adapter.scaling) * adapter.b[part.slot].T
        inputs[pair.a] = np.ascontiguousarray(a[None])
        inputs[pair.b] = b[None]
    return inputs
