from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fedaigc.arrays import FloatArray
from fedaigc_edge.model.fine_activations import refine_activations
from fedaigc_edge.model.store import GRAPH_FILE, ModelFolder

BLOCK, FEATURES, OUTPUTS = 32, 96, 40


def quantised_graph(path: Path, name: str = "/model/layers.3/mlp/down_proj/MatMul_Q8") -> FloatArray:
    """Write a graph of one product; returns its weights as the kernel sees them, (features, outputs)."""
    random = np.random.default_rng(1)
    whole = random.integers(0, 256, (OUTPUTS, FEATURES // BLOCK, BLOCK), dtype=np.uint8)
    scales = random.uniform(0.01, 0.02, (OUTPUTS, FEATURES // BLOCK)).astype(np.float32)
    attributes = {"K": FEATURES, "N": OUTPUTS, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], name, domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "n", FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "n", OUTPUTS])],
        [numpy_helper.from_array(whole, "w"), numpy_helper.from_array(scales, "s")],
    )
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(path))
    weights = (whole.astype(np.float32) - 128) * scales[..., None]
    return np.ascontiguousarray(weights.reshape(OUTPUTS, FEATURES).T)


def run(path: Path, x: FloatArray) -> FloatArray:
    import onnxruntime as ort

    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    y: FloatArray = session.run(["y"], {"x": x})[0]
    return y


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 7), (3, 2)])
def test_the_rounding_error_falls_a_hundredfold(tmp_path: Path, batch: int, length: int) -> None:
    weights = quantised_graph(tmp_path / "coarse.onnx")
    assert refine_activations(tmp_path / "coarse.onnx", tmp_path / "fine.onnx", 3) == 1
    x = np.random.default_rng(2).standard_normal((batch, length, FEATURES)).astype(np.float32)
    exact = x.astype(np.float64) @ weights.astype(np.float64)
    coarse = np.abs(run(tmp_path / "coarse.onnx", x) - exact).max()
    fine = np.abs(run(tmp_path / "fine.onnx", x) - exact).max()
    assert coarse > 1e-2
    assert fine < coarse / 50


def test_zeros_and_huge_values_stay_finite(tmp_path: Path) -> None:
    quantised_graph(tmp_path / "coarse.onnx")
    refine_activations(tmp_path / "coarse.onnx", tmp_path / "fine.onnx", 0)
    x = np.zeros((1, 2, FEATURES), np.float32)
    x[0, 1, 5] = 1e20
    y = run(tmp_path / "fine.onnx", x)
    assert np.all(y[0, 0] == 0) and np.isfinite(y).all()


def test_layers_below_the_first_adapted_one_are_left_alone(tmp_path: Path) -> None:
    quantised_graph(tmp_path / "coarse.onnx")
    assert refine_activations(tmp_path / "coarse.onnx", tmp_path / "fine.onnx", 4) == 0


def test_the_output_matrix_is_always_refined(tmp_path: Path) -> None:
    quantised_graph(tmp_path / "coarse.onnx", name="/lm_head/MatMul_Q8")
    assert refine_activations(tmp_path / "coarse.onnx", tmp_path / "fine.onnx", 99) == 1


def test_a_graph_that_is_not_quantised_is_copied(tiny_model: ModelFolder, tmp_path: Path) -> None:
    assert refine_activations(tiny_model.onnx / GRAPH_FILE, tmp_path / "fine.onnx", 0) == 0
    assert (tmp_path / "fine.onnx").exists()
