"""Put a GGUF file's own weights into a graph, so that serving rounds no weight again.

Q4_1 stores a weight as scale * code + minimum. The runtime's fast kernel knows scale * (code - 8), so what is
left, minimum + 8 * scale, is added apart: it is the same for the 32 weights of a block, hence x's sums over
blocks times a matrix with one row a block. Outlying features of x are further rows of it. Between the
attention nodes tokens lie in one dimension, because that product and what it is added to are then one node.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from fedaigc.errors import ModelError
from fedaigc_edge.model.batching_graph import HIDDEN_HEAD, HIDDEN_LAST, LOGIT_ROWS, OUTPUT_MATRIX
from fedaigc_edge.model.exact_weights import PARTS, ExactWeights
from fedaigc_edge.model.gguf_blocks import BLOCK, Blocks
from fedaigc_edge.model.graph_names import BATCH_SHAPE, FLAT, MASKED, UNCORRECTED
from fedaigc_edge.model.outlier_channels import Outliers
from fedaigc_edge.model.shared_embedding import DATA_FILE

_PRODUCT = re.compile(r"/model/layers\.(\d+)/(attn|mlp)/(\w+_proj)/MatMul")
_INTO_ATTENTION = ("q_proj", "k_proj", "v_proj", "qkv_proj")
_GATE, _UP = "gate_proj", "up_proj"
_ACTIVATION = "/act_fn/"
_FAST = 4
"""accuracy_level of the kernel that rounds activations to 8 bits."""
_CONTRIB = "com.microsoft"


def put_exact_weights(
    source: Path, target: Path, weights: ExactWeights, outliers: Outliers, attention_width: int
) -> None:
    """Write the fp32 batching graph `source` with the file's own weights to `target`, with its own data file.

    `attention_width` is heads times head_dim. Raises ModelError when the GGUF file holds other types than
    Q4_1 and Q8_0, or other weights.
    """
    import onnx

    model = onnx.load(str(source))
    _Rewriting(model.graph, weights, outliers, attention_width).run()
    onnx.save(
        model, str(target), save_as_external_data=True, all_tensors_to_one_file=True, location=DATA_FILE
    )


class _Rewriting:
    """One pass over a graph's nodes in order."""

    def __init__(self, graph: Any, weights: ExactWeights, outliers: Outliers, attention_width: int) -> None:
        from onnx import numpy_helper

        self._graph = graph
        self._weights = weights
        self._outliers = outliers
        self._attention_width = attention_width
        self._read = numpy_helper.to_array
        self._given = {item.name: item for item in graph.initializer}
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._made: set[str] = set()
        self._gates: dict[str, Any] = {}

    def run(self) -> None:
        """Replace the graph's nodes and constants."""
        from onnx import numpy_helper

        self._constants |= {"rows.shape": np.array([-1], np.int64), "any": np.array([-1], np.int64)}
        self._add("Reshape", ["input_ids", "rows.shape"], f"input_ids{FLAT}")
        self._add("Shape", ["input_ids"], "batch.sizes")
        self._add("Concat", ["batch.sizes", "any"], BATCH_SHAPE, axis=0)
        for node in self._graph.node:
            self._place(node)
        used = {name for node in self._nodes for name in node.input}
        kept = [item for item in self._graph.initializer if item.name in used]
        made = [numpy_helper.from_array(array, name) for name, array in self._constants.items()]
        for field, items in ((self._graph.node, self._nodes), (self._graph.initializer, kept + made)):
            del field[:]
            field.extend(items)
        del self._graph.value_info[:]

    def _place(self, node: Any) -> None:
        product = _PRODUCT.fullmatch(node.name)
        if product is not None and node.op_type == "MatMul":
            self._layer_product(node, int(product[1]), product[3])
        elif OUTPUT_MATRIX in node.name and node.op_type == "MatMul":
            self._output_product(node)
        elif "embed_tokens" in node.name:
            self._embedding(node)
        elif _ACTIVATION in node.name:
            self._activation(node)
        elif node.name != f"{LOGIT_ROWS}.flat":
            self._other(node)

    def _layer_product(self, node: Any, layer: int, name: str) -> None:
        stem = f"model.layers.{layer}.{node.name.split('/')[3]}"
        expected = self._matrix(node.input[1])
        if name in (_GATE, _UP):
            # One product for both: the input is rounded and summed once.
            self._gates[name] = (node, expected)
            if len(self._gates) == 2:
                self._gated(f"{stem}.gate_up", layer)
            return
        blocks = self._weights.product(layer, PARTS[name], expected)
        result = node.output[0]
        into_attention = name in _INTO_ATTENTION
        self._product(
            node.name, f"{stem}.{name}", node.input[0], blocks, result + FLAT if into_attention else result
        )
        if into_attention:
            self._add("Reshape", [result + FLAT, BATCH_SHAPE], result)

    def _gated(self, stem: str, layer: int) -> None:
        (gate, gate_matrix), (up, up_matrix) = self._gates.pop(_GATE), self._gates.pop(_UP)
        blocks = self._weights.product(layer, (_GATE, _UP), np.concatenate([gate_matrix, up_matrix], axis=1))
        name = gate.name.replace(_GATE, "gate_up_proj")
        result = f"{name}/output_0"
        self._product(name, stem, gate.input[0], blocks, result)
        outputs = [gate.output[0], up.output[0]]
        self._node("Split", [result], outputs, f"{result}/split", axis=-1, num_outputs=2)

    def _output_product(self, node: Any) -> None:
        blocks = self._weights.output(self._matrix(node.input[1]))
        self._product(node.name, OUTPUT_MATRIX, node.input[0], blocks, node.output[0])

    def _product(self, name: str, stem: str, source: str, blocks: Blocks, result: str) -> None:
        rows, groups = blocks.scales.shape
        weight, scales = f"{stem}.weight_Q{blocks.bits}", f"{stem}.scales"
        self._constants |= {weight: blocks.packed(), scales: blocks.scales}
        outliers = self._outliers.get(source, ())
        apart = [] if blocks.offsets is None else [blocks.offsets.T]
        apart += [blocks.columns(outliers)] if outliers else []
        uncorrected = result.removesuffix(FLAT) + UNCORRECTED
        self._node(
            "MatMulNBits",
            [self._masked(source, groups * BLOCK), weight, scales],
            [uncorrected if apart else result],
            f"{name}_Q{blocks.bits}",
            domain=_CONTRIB,
            accuracy_level=_FAST,
            K=groups * BLOCK,
            N=rows,
            bits=blocks.bits,
            block_size=BLOCK,
        )
        if apart:
            matrix = f"{stem}.apart"
            self._constants[matrix] = np.ascontiguousarray(np.concatenate(apart))
            side = self._side(source, groups, blocks.offsets is not None)
            self._add("Gemm", [side, matrix, uncorrected], result)

    def _masked(self, source: str, features: int) -> str:
        """The tensor of `source` without its outliers."""
        outliers, masked = self._outliers.get(source, ()), source + MASKED
        if not outliers:
            return source
        if masked not in self._made:
            self._made.add(masked)
            mask = np.ones(features, np.float32)
            mask[list(outliers)] = 0.0
            self._constants[f"{masked}.mask"] = mask
            self._add("Mul", [source, f"{masked}.mask"], masked)
        return masked

    def _side(self, source: str, groups: int, sums: bool) -> str:
        """The tensor of `source`'s sums over blocks, if wanted, and of its outliers: (rows, columns)."""
        outliers = self._outliers.get(source, ())
        parts = [self._sums(source, groups)] if sums else []
        if outliers:
            parts.append(f"{source}/outliers")
            if parts[-1] not in self._made:
                self._made.add(parts[-1])
                self._constants[f"{parts[-1]}.places"] = np.array(outliers, np.int64)
                self._add("Gather", [source, f"{parts[-1]}.places"], parts[-1], axis=1)
        side = parts[0] if len(parts) == 1 else f"{source}/side"
        if len(parts) > 1 and side not in self._made:
            self._made.add(side)
            self._add("Concat", parts, side, axis=1)
        return side

    def _sums(self, source: str, groups: int) -> str:
        sums, matrix = f"{source}/sums", f"sums.{groups}"
        if sums not in self._made:
            self._made.add(sums)
            # One matrix for every layer: it stays in the processor's cache.
            self._constants[matrix] = np.repeat(np.eye(groups, dtype=np.float32), BLOCK, axis=0)
            self._add("MatMul", [source, matrix], sums)
        return sums

    def _embedding(self, node: Any) -> None:
        if node.op_type != "Gather":
            return  # what prepares the output matrix to serve as embedding
        matrix = self._given.get(node.input[0])
        if matrix is not None:
            self._add("Gather", [node.input[0], f"input_ids{FLAT}"], node.output[0])
            return
        weight, scales = f"{OUTPUT_MATRIX}.weight_Q8", f"{OUTPUT_MATRIX}.scales"
        head = next(
            item for item in self._graph.node if OUTPUT_MATRIX in item.name and item.op_type == "MatMul"
        )
        blocks = self._weights.output(self._matrix(head.input[1]))
        if blocks.offsets is not None:
            raise ModelError(
                "This model's embedding cannot be served exactly",
                "it is 4-bit and the output matrix too",
                "export with --precision int8",
            )
        shape = f"{OUTPUT_MATRIX}.shape"
        self._constants[shape] = np.array([len(blocks.scales), blocks.scales.shape[1] * BLOCK], np.int64)
        self._add("Reshape", [weight, shape], f"{weight}.rows")
        self._node(
            "GatherBlockQuantized",
            [f"{weight}.rows", f"input_ids{FLAT}", scales],
            [node.output[0]],
            node.name,
            domain=_CONTRIB,
            bits=blocks.bits,
            block_size=BLOCK,
            gather_axis=0,
            quantize_axis=1,
        )

    def _activation(self, node: Any) -> None:
        if node.op_type == "Sigmoid":
            return
        # x * sigmoid(x) in one node.
        self._node("QuickGelu", [node.input[0]], [node.output[0]], node.name, domain=_CONTRIB, alpha=1.0)

    def _other(self, node: Any) -> None:
        for place, name in enumerate(node.input):
            if name in (HIDDEN_HEAD, HIDDEN_LAST, f"{LOGIT_ROWS}.flat"):
                node.input[place] = (HIDDEN_LAST if name.startswith(LOGIT_ROWS) else name) + FLAT
        self._nodes.append(node)
        for place, name in enumerate(node.output):
            if name in (HIDDEN_HEAD, HIDDEN_LAST):
                node.output[place] = name + FLAT
                self._add("Reshape", [name + FLAT, BATCH_SHAPE], name)
        if node.op_type == "GroupQueryAttention":
            result = node.output[0]
            node.output[0] = f"{result}/of_batch"
            self._constants["attention.shape"] = np.array([-1, self._attention_width], np.int64)
            self._add("Reshape", [node.output[0], "attention.shape"], result)

    def _matrix(self, name: str) -> Any:
        if name not in self._given:
            raise ModelError(
                "The builder's graph is not of the expected form",
                f"it has no constant {name}",
                "install the versions of the constraints file and export again",
            )
        return self._read(self._given[name])

    def _add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self._node(kind, inputs, [output], output, **attributes)

    def _node(self, kind: str, inputs: list[str], outputs: list[str], name: str, **attributes: Any) -> None:
        from onnx import helper

        self._nodes.append(helper.make_node(kind, inputs, outputs, name=name, **attributes))
