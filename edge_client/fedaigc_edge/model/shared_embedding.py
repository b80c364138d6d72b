"""Let a graph's embedding read the 8-bit output matrix when the model ties them: 113 MB less for
SmolLM2-135M.

The builder leaves such an embedding in fp32 beside its quantised copy. Quality is the same to the third
digit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

DATA_FILE = "model.onnx.data"
_BITS = 8


def share_embedding(source: Path, target: Path) -> bool:
    """Write the graph `source` with its embedding shared to `target`, in another folder, with its own data
    file.

    Returns False, and writes nothing, when the graph has no symmetric 8-bit output matrix or no plain
    embedding.
    """
    import onnx

    model = onnx.load(str(source), load_external_data=False)
    head = next((n for n in model.graph.node if n.op_type == "MatMulNBits" and "lm_head" in n.name), None)
    gather = next((n for n in model.graph.node if n.op_type == "Gather" and "embed_tokens" in n.name), None)
    if head is None or gather is None or not _is_symmetric_8_bit(head):
        return False
    model = onnx.load(str(source))
    _replace(model.graph, head.name, gather.name)
    onnx.save(
        model, str(target), save_as_external_data=True, all_tensors_to_one_file=True, location=DATA_FILE
    )
    return True


def _attribute(node: Any, name: str) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == name), 0)


def _is_symmetric_8_bit(head: Any) -> bool:
    zero_points = len(head.input) > 3 and bool(head.input[3])
    whole_blocks = _attribute(head, "K") % (_attribute(head, "block_size") or 1) == 0
    return _attribute(head, "bits") == _BITS and whole_blocks and not zero_points


def _replace(graph: Any, head_name: str, gather_name: str) -> None:
    import numpy as np
    from onnx import helper, numpy_helper

    head = next(node for node in graph.node if node.name == head_name)
    position, gather = next((i, node) for i, node in enumerate(graph.node) if node.name == gather_name)
    rows, features, block = (_attribute(head, name) for name in ("N", "K", "block_size"))
    shape_name, weights = "model.embed_tokens.shared_shape", "model.embed_tokens.shared"
    graph.initializer.append(numpy_helper.from_array(np.array([rows, features], np.int64), shape_name))
    stem = gather_name.rsplit("/", 1)[0]
    replacement = [
        helper.make_node("Reshape", [head.input[1], shape_name], [weights], name=stem + "/Reshape"),
        helper.make_node(
            "GatherBlockQuantized",
            [weights, gather.input[1], head.input[2]],
            [gather.output[0]],
            name=stem + "/GatherBlockQuantized",
            domain="com.microsoft",
            bits=_BITS,
            block_size=block,
            gather_axis=0,
            quantize_axis=1,
        ),
    ]
    embedding = gather.input[0]
    nodes = list(graph.node)
    nodes[position : position + 1] = replacement
    del graph.node[:]
    graph.node.extend(nodes)
    scales = next(item for item in graph.initializer if item.name == head.input[2])
    scales.dims[:] = [rows, features // block]
    kept = [item for item in graph.initializer if item.name != embedding]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    del graph.value_info[:]
