from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from fedaigc.adapter import Adapter, AdapterShape, AdapterSlot
from fedaigc.errors import ModelError
from fedaigc_edge.model.architecture import architecture_of
from fedaigc_edge.model.graph_runs import graph_logits
from fedaigc_edge.model.lora_inputs import add_lora_inputs
from fedaigc_edge.model.lora_layout import graph_inputs
from fedaigc_edge.model.store import GRAPH_FILE, ModelFolder
from tests.tiny_model import export_tiny, make_tiny_hf_folder

PROMPTS = [[5, 6, 7], [40, 41, 42, 43, 44]]


def adapter_of(model: ModelFolder, size: float) -> Adapter:
    random = np.random.default_rng(3)
    arrays = {
        slot.name: (size * random.standard_normal((slot.out_features, model.shape.rank))).astype(np.float32)
        for slot in model.shape.slots
    }
    return Adapter(model.shape, model.base_model, arrays)


def logits(model: ModelFolder, adapter: Adapter | None) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    lora = graph_inputs(adapter, model.lora_inputs) if adapter else None
    return graph_logits(model.onnx / GRAPH_FILE, PROMPTS, architecture_of(model.hf), lora)


def test_the_inputs_are_optional_and_named_in_the_record(tiny_model: ModelFolder) -> None:
    graph = onnx.load(str(tiny_model.onnx / GRAPH_FILE), load_external_data=False).graph
    inputs = {item.name for item in graph.input}
    defaults = {item.name for item in graph.initializer}
    names = {name for pair in tiny_model.lora_inputs for name in (pair.a, pair.b)}
    assert len(names) == 4
    assert names <= inputs and names <= defaults


def test_the_graph_says_nothing_of_where_it_was_built(tiny_model: ModelFolder) -> None:
    model = onnx.load(str(tiny_model.onnx / GRAPH_FILE), load_external_data=False)
    assert model.producer_version == ""
    assert not model.metadata_props


def test_a_zero_adapter_changes_no_bit(tiny_model: ModelFolder) -> None:
    assert np.array_equal(logits(tiny_model, adapter_of(tiny_model, 0.0)), logits(tiny_model, None))


def test_an_adapter_changes_the_logits(tiny_model: ModelFolder) -> None:
    assert np.abs(logits(tiny_model, adapter_of(tiny_model, 1.0)) - logits(tiny_model, None)).max() > 0.1


def test_a_layer_without_a_node_is_a_model_error(tiny_model: ModelFolder, tmp_path: Path) -> None:
    shape = AdapterShape(2, 4.0, (AdapterSlot(9, "q_proj", 64, 64),))
    with pytest.raises(ModelError, match="cannot take adapters"):
        add_lora_inputs(
            tiny_model.onnx / GRAPH_FILE, tmp_path / "m.onnx", shape, architecture_of(tiny_model.hf)
        )


def test_a_damaged_graph_is_a_model_error(tiny_model: ModelFolder, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelError, match="does not run"):
        graph_logits(tmp_path / "m.onnx", PROMPTS, architecture_of(tiny_model.hf))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "tied"), [("qwen2", False), ("qwen3", True)])
def test_the_qwen_families_export_and_agree(tmp_path: Path, family: str, tied: bool) -> None:
    # Qwen2 adds a bias after the fused node, Qwen3 normalises q and k.
    folder = make_tiny_hf_folder(tmp_path / "hf", tied, family)
    model = export_tiny(folder, tmp_path / "models", precision="int8")
    parity = model.export["parity"]
    assert parity["change_cosine"] > 0.99 and parity["base_cosine"] > 0.99
