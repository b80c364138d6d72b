"""Give an exported graph LoRA matrices as inputs, so that adapters change without loading the model again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedaigc.adapter import AdapterShape, AdapterSlot
from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.architecture import Architecture
from fedaigc_edge.model.batching_graph import LOGIT_ROWS, LOGITS
from fedaigc_edge.model.fine_activations import QUANTISED, plain_name
from fedaigc_edge.model.lora_layout import LoraPair, LoraPart
from fedaigc_edge.model.quiet_runtime import quiet_runtimes

FUSED = "qkv_proj"
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
    pairs: list[LoraPair] = []
    insertions: dict[str, list[Any]] = {}
    for layer in sorted({slot.layer for slot in shape.slots}):
        slots = [slot for slot in shape.slots if slot.layer == layer]
        prefix = f"/model/layers.{layer}/attn/"
        if prefix + FUSED in nodes:
            groups = {FUSED: (slots, sum(architecture.projections.values()))}
        else:
            groups = {slot.projection: ([slot], slot.out_features) for slot in slots}
        for name, (members, width) in groups.items():
            node = nodes.get(prefix + name)
            if node is None:
                raise _no_node(layer, name)
            pair = _pair(layer, name, members, width, architecture)
            # After the bias: the runtime fuses it into the product, and another order would round otherwise.
            result = _node_making(model.graph, plain_name(node.output[0]))
            last = _bias_after(model.graph, result) or result
            insertions[last.name] = _branch(model.graph, plain_name(node.input[0]), last, pair)
            pairs.append(pair)
    ordered = [new for node in model.graph.node for new in insertions.get(node.name, [node])]
    del model.graph.node[:]
    model.graph.node.extend(ordered)
    del model.graph.value_info[:]
    # The builder writes the commit of whatever repository it is run in: equal models would hash differently.
    model.producer_version = ""
    onnx.save(model, str(target))
    return tuple(pairs)


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


def _branch(graph: Any, source: str, node: Any, pair: LoraPair) -> list[Any]:
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
    return [
        node,
        helper.make_node("MatMul", [source, pair.a], [stem + "down"], name=stem + "down"),
        helper.make_node("MatMul", [stem + "down", pair.b], [stem + "up"], name=stem + "up"),
        helper.make_node("Add", [node.output[0], stem + "up"], [output], name=stem + "sum"),
    ]


def graph_logits(
    graph_file: Path,
    prompts: Sequence[Sequence[int]],
    architecture: Architecture,
    lora: Mapping[str, FloatArray] | None = None,
) -> FloatArray:
    """Logits after each prompt's last token, (prompts, vocabulary) float32, on the CPU; raises ModelError."""
    quiet_runtimes()
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    try:
        session = ort.InferenceSession(str(graph_file), options, providers=["CPUExecutionProvider"])
        rows = [_run(session, prompt, architecture, lora or {}) for prompt in prompts]
    except Exception as error:  # ORT raises a dozen unrelated classes
        raise ModelError(
            "The exported graph does not run",
            str(error)[:300],
            "install the versions of the constraints file",
        ) from error
    return np.stack(rows)


def _run(
    session: Any, prompt: Sequence[int], architecture: Architecture, lora: Mapping[str, FloatArray]
) -> FloatArray:
    length = len(prompt)
    feeds: dict[str, Any] = dict(lora)
    known = {
        "input_ids": np.array([prompt], dtype=np.int64),
        "attention_mask": np.ones((1, length), dtype=np.int64),
        "position_ids": np.arange(length, dtype=np.int64)[None],
        LOGIT_ROWS: np.array([length - 1], dtype=np.int64),
    }
    empty = np.zeros((1, architecture.kv_heads, 0, architecture.head_dim), dtype=np.float32)
    for item in session.get_inputs():
        if item.name.startswith("past_key_values."):
            feeds[item.name] = empty
        elif item.name in known:
            feeds[item.name] = known[item.name]
    logits: FloatArray = session.run([LOGITS], feeds)[0]
    return logits.reshape(architecture.vocabulary).astype(np.float32)


def _no_node(layer: int, name: str) -> ModelError:
    return ModelError(
        "The exported graph cannot take adapters",
        f"layer {layer} has no node {name}",
        "install the versions of the constraints file and export again",
    )
