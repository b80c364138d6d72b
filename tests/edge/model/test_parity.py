from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from fedaigc.errors import ModelError
from fedaigc_edge.model.architecture import architecture_of
from fedaigc_edge.model.lora_layout import LoraPair
from fedaigc_edge.model.parity import Parity, check_parity
from fedaigc_edge.model.store import GRAPH_FILE, ModelFolder


def check(
    model: ModelFolder, built: Path, served: Path, pairs: Sequence[LoraPair], head_layer: int = 1
) -> Parity:
    architecture = architecture_of(model.hf)
    return check_parity(
        built, served, model.hf, model.shape, model.base_model, architecture, pairs, head_layer
    )


def test_an_fp32_export_agrees_to_rounding(tiny_model: ModelFolder) -> None:
    graph = tiny_model.onnx / GRAPH_FILE
    parity = check(tiny_model, graph, graph, tiny_model.lora_inputs)
    assert parity.base_cosine > 0.99999 and parity.change_cosine > 0.99999
    assert parity.base_top1 == 1.0 and abs(parity.change_scale - 1.0) < 1e-3


def test_a_graph_that_differs_without_adapter_is_refused(tiny_model: ModelFolder, tmp_path: Path) -> None:
    shutil.copytree(tiny_model.onnx, tmp_path / "onnx")
    served = tmp_path / "onnx" / GRAPH_FILE
    graph = onnx.load(str(served), load_external_data=False)
    for item in graph.graph.initializer:
        if item.name == tiny_model.lora_inputs[0].b or item.name == tiny_model.lora_inputs[0].a:
            array = numpy_helper.to_array(item).copy()
            array[0] = 1.0
            item.CopyFrom(numpy_helper.from_array(array, item.name))
    onnx.save(graph, str(served))
    with pytest.raises(ModelError, match="without an adapter"):
        check(tiny_model, tiny_model.onnx / GRAPH_FILE, served, tiny_model.lora_inputs)


def test_a_slot_in_the_wrong_place_is_refused(tiny_model: ModelFolder) -> None:
    graph = tiny_model.onnx / GRAPH_FILE
    wrong = []
    for pair in tiny_model.lora_inputs:
        q, v = pair.parts
        wrong.append(replace(pair, parts=(q, replace(v, offset=v.offset - v.out_features))))
    with pytest.raises(ModelError, match="otherwise than in training"):
        check(tiny_model, graph, graph, wrong)


def test_a_reward_head_that_would_read_another_layer_is_refused(tiny_model: ModelFolder) -> None:
    graph = tiny_model.onnx / GRAPH_FILE
    with pytest.raises(ModelError, match="trained on layer 2"):
        check(tiny_model, graph, graph, tiny_model.lora_inputs, head_layer=2)


def test_other_weights_are_refused(tiny_model: ModelFolder, tmp_path: Path) -> None:
    shutil.copytree(tiny_model.onnx, tmp_path / "onnx")
    data = tmp_path / "onnx" / "model.onnx.data"
    data.write_bytes(bytes(reversed(data.read_bytes())))
    served = tmp_path / "onnx" / GRAPH_FILE
    with pytest.raises(ModelError, match=r"do not agree|does not run"):
        check(tiny_model, served, served, tiny_model.lora_inputs)
