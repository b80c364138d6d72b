"""Which matrices of a GGUF file stand behind a graph's products, checked against the ones they replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.architecture import Architecture
from fedaigc_edge.model.gguf_blocks import Blocks, GgufBlocks, stacked

GGUF_NAMES: Mapping[str, str] = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}
"""Projection -> what llama.cpp calls it."""
PARTS: Mapping[str, tuple[str, ...]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    **{name: (name,) for name in GGUF_NAMES},
}
"""The projections that a product of the graph consists of, in order."""

EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
_PERMUTED_FAMILY = "llama"
_TOLERANCE = 1e-5
"""Of the largest weight: what float32 may lose between two ways of writing the same number."""


class ExactWeights:
    """The matrices of one model, by layer and projection."""

    def __init__(self, blocks: GgufBlocks, architecture: Architecture, family: str) -> None:
        self._blocks = blocks
        self._heads = {"q_proj": architecture.heads, "k_proj": architecture.kv_heads}
        self._permuted = family == _PERMUTED_FAMILY

    def product(self, layer: int, names: Sequence[str], expected: FloatArray) -> Blocks:
        """The projections below one another; `expected` (features, outputs) is what the graph had.

        Raises ModelError when the file has other types, or other weights.
        """
        parts = []
        for name in names:
            part = self._blocks.read(f"blk.{layer}.{GGUF_NAMES[name]}.weight")
            heads = self._heads.get(name) if self._permuted else None
            parts.append(part if heads is None else part.unpermuted(heads))
        return _same(stacked(parts), expected.T, f"layer {layer}, {' '.join(names)}")

    def output(self, expected: FloatArray) -> Blocks:
        """The output matrix, of which the embedding may be the same one; raises ModelError."""
        name = OUTPUT if self._blocks.has(OUTPUT) else EMBEDDING
        return _same(self._blocks.read(name), expected.T, name)


def _same(found: Blocks, expected: FloatArray, what: str) -> Blocks:
    dense = found.dense()
    largest = float(np.abs(expected).max())
    if dense.shape != expected.shape or float(np.abs(dense - expected).max()) > _TOLERANCE * largest:
        raise ModelError(
            "The GGUF file's weights are not those of the model made from it",
            what,
            "export with --precision int8, and with the versions of the constraints file",
        )
    return found
