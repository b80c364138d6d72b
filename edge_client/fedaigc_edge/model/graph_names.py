"""What our graph surgery adds to the builder's names, so that its steps find each other's tensors."""

from __future__ import annotations

from typing import Any

BATCH_SHAPE = "batch.shape"
"""The tensor (batch, length, -1): reshaping flat tokens to it gives them their two dimensions back."""
FLAT, UNCORRECTED = "/flat", "/uncorrected"
"""A result before it got its two dimensions back; a product before its weights' offsets are added."""
STACKED, BOTH = "/hi_and_lo", "/of_hi_and_lo"
"""The doubled input and output of a product with fine activations."""

MASKED = "/masked"
"""A product's input without its outliers, which are multiplied apart."""


def plain_name(tensor: str) -> str:
    """The name that the builder gave to a tensor's final form."""
    for suffix in (BOTH, STACKED, MASKED, UNCORRECTED, FLAT):
        tensor = tensor.removesuffix(suffix)
    return tensor


def is_flat(graph: Any) -> bool:
    """Whether tokens lie in one dimension between the graph's attention nodes."""
    return any(BATCH_SHAPE in node.output for node in graph.node)
