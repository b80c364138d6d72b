"""Turn the builder's graph into the one that the engine runs: logits of chosen rows, hidden states out.

The builder gives logits of every position or of the last one only. The engine wants one row of a prefill, one
of each slot in a decode step, and several when it checks a draft, so the rows are an input.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedaigc.errors import ModelError

LOGIT_ROWS = "logit_rows"
"""Input, (rows,) int64: which of the flattened (batch * length) positions get logits."""
LOGITS = "logits"
HIDDEN_HEAD = "hidden.head"
"""Output, (batch, length, hidden): what the reward head reads, see Architecture.head_layer."""
HIDDEN_LAST = "hidden.last"
"""Output, (batch, length, hidden): after the final norm."""
OUTPUT_MATRIX = "lm_head"

_NORM = "final_norm_layernorm"
_PRUNING = "/lm_head/prune/"
_RESIDUAL = 3
"""Which output of SkipSimplifiedLayerNormalization is the sum that it normalises."""


def make_batching_graph(source: Path, target: Path, head_layer: int, layers: int, hidden: int) -> None:
    """Write the graph `source` in the engine's form to `target` in the same folder.

    `head_layer` counts decoder layers: 1 is after the first, `layers` before the final norm. Raises
    ModelError when the builder's graph is not as expected.
    """
    import onnx

    model = onnx.load(str(source), load_external_data=False)
    graph = model.graph
    final = _one(graph, _NORM)
    head = final if head_layer == layers else _one(graph, f"/layers.{head_layer}/input_layernorm")
    _expose(graph, head, _RESIDUAL, HIDDEN_HEAD, hidden)
    _expose(graph, final, 0, HIDDEN_LAST, hidden)
    _choose_rows(graph, hidden)
    del graph.value_info[:]
    onnx.save(model, str(target))


def _one(graph: Any, part: str) -> Any:
    found = [node for node in graph.node if part in node.name and node.op_type.endswith("Normalization")]
    if len(found) != 1:
        raise _unexpected(f"{len(found)} nodes are called {part}")
    return found[0]


def _expose(graph: Any, node: Any, place: int, name: str, hidden: int) -> None:
    """Make the node's output number `place` an output of the graph under `name`."""
    from onnx import TensorProto, helper

    node.output.extend([""] * (place + 1 - len(node.output)))
    _rename(graph, node.output[place], name)
    node.output[place] = name
    dims = ["batch_size", "sequence_length", hidden]
    graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))


def _rename(graph: Any, before: str, after: str) -> None:
    for node in graph.node if before else []:
        for place, value in enumerate(node.input):
            if value == before:
                node.input[place] = after


def _choose_rows(graph: Any, hidden: int) -> None:
    """Let the output matrix read `logit_rows` of the flat hidden states: logits are (rows, vocabulary)."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    products = [n for n in graph.node if OUTPUT_MATRIX in n.name and n.op_type.startswith("MatMul")]
    logits = next((item for item in graph.output if item.name == LOGITS), None)
    if len(products) != 1 or logits is None:
        raise _unexpected("it has no output matrix")
    product = products[0]
    rest = [node for node in graph.node if not node.name.startswith(_PRUNING)]
    place = rest.index(product)
    flat = f"{LOGIT_ROWS}.flat"
    rest[place:place] = [
        helper.make_node("Reshape", [HIDDEN_LAST, f"{LOGIT_ROWS}.shape"], [flat], name=flat),
        helper.make_node("Gather", [flat, LOGIT_ROWS], [f"{LOGIT_ROWS}.of"], name=f"{LOGIT_ROWS}.of", axis=0),
    ]
    product.input[0] = f"{LOGIT_ROWS}.of"
    del graph.node[:]
    graph.node.extend(rest)
    shape = np.array([-1, hidden], np.int64)
    graph.initializer.append(numpy_helper.from_array(shape, f"{LOGIT_ROWS}.shape"))
    graph.input.append(helper.make_tensor_value_info(LOGIT_ROWS, TensorProto.INT64, ["rows"]))
    vocabulary = logits.type.tensor_type.shape.dim[-1].dim_value
    logits.CopyFrom(helper.make_tensor_value_info(LOGITS, TensorProto.FLOAT, ["rows", vocabulary]))


def _unexpected(why: str) -> ModelError:
    return ModelError(
        "The builder's graph is not of the expected form",
        why,
        "install the versions of the constraints file and export again",
    )
