"""Give an exported graph LoRA matrices as inputs, so that adapters change without loading the model again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedaigc.adapter import AdapterShape, AdapterSlot
from fedaigc.errors import ModelError
from fedaigc_edge.model.architecture import Architecture
from fedaigc_edge.model.fine_activations import QUANTISED
from fedaigc_edge.model.graph_names import BATCH_SHAPE, FLAT, is_flat, plain_name
from fedaigc_edge.model.lora_layout import LoraPair, LoraPart

FUSED, ATTENTION_OUTPUT = "qkv_proj", "o_proj"
ADAPTERS = "1 or batch_size"
"""First dimension of every LoRA input: one adapter for all rows of a batch, or one for each."""
_PRODUCTS = ("MatMul", QUANTISED)


def add_lora_inputs(
    graph_file: Path, target: Path, shape: AdapterShape, architecture: Architecture
) -> tuple[LoraPair, ...]:
    """Write `graph_file` with optional inputs for `shape` to `target` in the same folder; returns where
    they lie.

    Without an adapter the inputs default to zeros of rank 1, which changes no logit. Weights stay in their
    shared data file. Raises ModelError when the graph has no node for a slot.
    """
    import onnx

    model = onnx.load(str(graph_file), load_external_data=False)
    nodes = {node.name.split("/MatMul")[0]: node for node in model.graph.node if node.op_type in _PRODUCTS}
    flat = is_flat(model.graph)
    pairs: list[LoraPair] = []
    insertions: dict[str, list[Any]] = {}
    for layer in sorted({slot.layer for slot in shape.slots}):
        slots = [slot for slot in shape.slots if slot.layer == layer]
        prefix = f"/model/layers.{layer}/attn/"
        for name, members in _groups(slots, prefix + FUSED in nodes).items():
            node = nodes.get(prefix + name)
            if node is None:
                raise _no_node(layer, name)
            width = sum(architecture.projections.values()) if name == FUSED else members[0].out_features
            pair = _pair(layer, name, members, width, architecture)
            # After the bias: the runtime fuses it into the product, and another order would round otherwise.
            result = _node_making(model.graph, plain_name(node.output[0]))
            last = _bias_after(model.graph, result) or result
            form = _Form(flat, flat and name == ATTENTION_OUTPUT)
            insertions[last.name] = _branch(model.graph, plain_name(node.input[0]), last, pair, form)
            pairs.append(pair)
    ordered = [new for node in model.graph.node for new in insertions.get(node.name, [node])]
    del model.graph.node[:]
    model.graph.node.extend(ordered)
    del model.graph.value_info[:]
    # The builder writes the commit of whatever repository it is run in: equal models would hash differently.
    model.producer_version = ""
    onnx.save(model, str(target))
    return tuple(pairs)


@dataclass(frozen=True)
class _Form:
    """Whether a product's input and its result have the batch and its tokens in one dimension."""

    flat_input: bool
    flat_result: bool


def _groups(slots: Sequence[AdapterSlot], fused: bool) -> dict[str, list[AdapterSlot]]:
    """Which slots share a product of the graph, by its name."""
    groups: dict[str, list[AdapterSlot]] = {}
    for slot in slots:
        joined = fused and slot.projection != ATTENTION_OUTPUT
        groups.setdefault(FUSED if joined else slot.projection, []).append(slot)
    return groups


def _pair(
    layer: int, name: str, members: Sequence[AdapterSlot], width: int, architecture: Architecture
) -> LoraPair:
    parts = []
    for slot in members:
        offset = 0
        if name == FUSED:
            order = list(architecture.projections)
            before = order[: order.index(slot.projection)]
            offset = sum(architecture.projections[projection] for projection in before)
        parts.append(LoraPart(slot.name, offset, slot.out_features))
    stem = f"model.layers.{layer}.attn.{name}.lora_"
    return LoraPair(stem + "A.weight", stem + "B.weight", members[0].in_features, width, tuple(parts))


def _node_making(graph: Any, tensor: str) -> Any:
    return next(node for node in graph.node if tensor in node.output)


def _bias_after(graph: Any, node: Any) -> Any:
    """The Add of a bias that alone reads the node's output, or None."""
    readers = [other for other in graph.node if node.output[0] in other.input]
    constants = {item.name for item in graph.initializer}
    if len(readers) == 1 and readers[0].op_type == "Add" and set(readers[0].input) & constants:
        return readers[0]
    return None


def _branch(graph: Any, source: str, node: Any, pair: LoraPair, form: _Form) -> list[Any]:
    """What replaces `node`: itself, source @ A @ B beside it, and their sum under its old output name."""
    from onnx import TensorProto, helper, numpy_helper

    rank = f"rank of {pair.a}"
    for name, dims, zeros in (
        (pair.a, [ADAPTERS, pair.in_features, rank], (1, pair.in_features, 1)),
        (pair.b, [ADAPTERS, rank, pair.out_features], (1, 1, pair.out_features)),
    ):
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        graph.initializer.append(numpy_helper.from_array(np.zeros(zeros, np.float32), name))
    output, stem = node.output[0], pair.a.removesuffix("A.weight")
    node.output[0] = output + "/base"
    nodes, added = [node], stem + "up"
    if form.flat_input:
        # Each row of a batch may have an adapter of its own, so the product needs the batch's dimension.
        nodes.append(helper.make_node("Reshape", [source, BATCH_SHAPE], [stem + "in"], name=stem + "in"))
        source = stem + "in"
    nodes.append(helper.make_node("MatMul", [source, pair.a], [stem + "down"], name=stem + "down"))
    nodes.append(helper.make_node("MatMul", [stem + "down", pair.b], [added], name=added))
    if form.flat_result:
        shape = np.array([-1, pair.out_features], np.int64)
        graph.initializer.append(numpy_helper.from_array(shape, stem + "shape"))
        nodes.append(helper.make_node("Reshape", [added, stem + "shape"], [added + FLAT], name=added + FLAT))
        added += FLAT
    nodes.append(helper.make_node("Add", [node.output[0], added], [output], name=stem + "sum"))
    return nodes


def _no_node(layer: int, name: str) -> ModelError:
    return ModelError(
        "The exported graph cannot take adapters",
        f"layer {layer} has no node {name}",
        "install the versions of the constraints file and export again",
    )
