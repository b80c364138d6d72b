"""Find the few features of a product's input that spoil the kernel's rounding of all the others.

The fast kernel rounds activations to 8 bits with one scale for 32 features, and a trained model has features
a hundred times larger than their neighbours: before SmolLM2's output matrix, four of 576 make 86 % of the
noise. Multiplied apart in full precision they cost little, and a small adapter is not lost in noise.
The same idea at run time is LLM.int8() (arXiv 2208.07339).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc_edge.model.architecture import Architecture
from fedaigc_edge.model.batching_graph import LOGIT_ROWS
from fedaigc_edge.model.gguf_blocks import BLOCK
from fedaigc_edge.model.graph_runs import Prompts, graph_values

MANY, BEFORE_OUTPUT, FEW = 48, 24, 4
"""Features at most: from the first adapted layer up, where noise hides adapters; before the output matrix,
of which each column costs most; and in the layers below, before q, k and v alone. What spoils the other
inputs there is not a few features."""
_LATITUDE = 4
"""The last quarter of the features is cut at the steepest fall, so that no tie decides: equal models must be
equal on every machine, and sums differ in their last digit between processors."""
_PRODUCT = re.compile(r"/model/layers\.(\d+)/(?:attn|mlp)/(\w+_proj)/MatMul")
_INTO_ATTENTION = ("q_proj", "k_proj", "v_proj", "qkv_proj")

Outliers = dict[str, tuple[int, ...]]
"""Name of a product's input in the graph -> its outlying features, in ascending order."""


def find_outliers(
    graph_file: Path, prompts: Prompts, architecture: Architecture, first_layer: int
) -> Outliers:
    """The outlying features of the fp32 batching graph on `prompts`; adapters begin at `first_layer`.

    Raises ModelError when the graph does not run.
    """
    wanted = _inputs(graph_file, first_layer)
    values = graph_values(graph_file, prompts, architecture, list(wanted))
    return {name: outlying(values[name], most) for name, most in wanted.items()}


def _inputs(graph_file: Path, first_layer: int) -> dict[str, int]:
    import onnx

    graph = onnx.load(str(graph_file), load_external_data=False).graph
    wanted = {f"{LOGIT_ROWS}.of": BEFORE_OUTPUT}
    for node in graph.node:
        product = _PRODUCT.fullmatch(node.name)
        if product is None or node.op_type != "MatMul":
            continue
        if int(product[1]) >= first_layer:
            wanted[node.input[0]] = MANY
        elif product[2] in _INTO_ATTENTION:
            wanted[node.input[0]] = FEW
    return wanted


def outlying(values: FloatArray, most: int) -> tuple[int, ...]:
    """The features of `values` (tokens, features) without which rounding errs least: at most `most` of them.

    Chosen one after the other: each time the one whose absence lessens the blocks' squared scales most.
    """
    sizes = np.abs(values.astype(np.float64)).reshape(len(values), -1, BLOCK)
    chosen: list[int] = []
    gains: list[float] = []
    for _ in range(min(most, sizes.shape[1] * (BLOCK - 1))):
        gain = _gains(sizes)
        best = int(gain.argmax())
        chosen.append(best)
        gains.append(float(gain.flat[best]))
        sizes[:, best // BLOCK, best % BLOCK] = 0.0
    return tuple(sorted(chosen[: _steepest(gains)]))


def _gains(sizes: FloatArray) -> FloatArray:
    """How much the sum of squared block maxima falls without each feature, (blocks, BLOCK)."""
    largest_two = np.partition(sizes, BLOCK - 2, axis=-1)[..., -2:]
    difference = largest_two[..., 1] ** 2 - largest_two[..., 0] ** 2
    is_largest = np.arange(BLOCK) == sizes.argmax(-1)[..., None]
    gains: FloatArray = (is_largest * difference[..., None]).sum(0)
    return gains


def _steepest(gains: Sequence[float]) -> int:
    """How many to keep: where the next gain is smallest beside the one before."""
    first = max(1, len(gains) - len(gains) // _LATITUDE)
    falls = {count: gains[count - 1] / max(gains[count], 1e-300) for count in range(first, len(gains))}
    return max(falls, key=lambda count: falls[count], default=len(gains))
