from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from fedaigc.adapter import Adapter, AdapterShape
from fedaigc.arrays import FloatArray
from fedaigc_edge.model.architecture import adapter_shape
from fedaigc_edge.model.batching_graph import HIDDEN_HEAD, HIDDEN_LAST
from fedaigc_edge.model.graph_runs import graph_logits, graph_values
from fedaigc_edge.model.hf_folder import TorchReference
from fedaigc_edge.model.lora_layout import LoraPair, graph_inputs
from fedaigc_edge.model.served_graph import PLAIN_GRAPH, Q41_EXACT, GraphPlan, make_served_graph
from fedaigc_edge.model.store import GRAPH_FILE
from tests.edge.model.tiny_gguf import quantised_tiny
from tests.tiny_model import LAYERS, TINY_SIZES

PROMPTS = ([5, 6, 7, 8, 90], [40, 41, 42, 43, 44, 45, 46])
BASE = "ab" * 32


class Made:
    """One export, and what torch says of the same weights."""

    def __init__(self, folder: Path, targets: tuple[str, ...], kinds: dict[str, str] | None = None) -> None:
        source, hf = quantised_tiny(folder, kinds)
        self.shape = adapter_shape(TINY_SIZES, LAYERS, 4, 8.0, targets)
        self.folder = folder / "served"
        plan = GraphPlan(source, "llama", hf, Q41_EXACT, TINY_SIZES, self.shape, 1, PROMPTS)
        self.pairs: tuple[LoraPair, ...] = make_served_graph(plan, self.folder, folder / "log").lora_inputs
        self.torch = TorchReference(hf)

    def logits(self, adapter: Adapter | None = None, file: str = GRAPH_FILE) -> FloatArray:
        lora = graph_inputs(adapter, self.pairs) if adapter else None
        return graph_logits(self.folder / file, PROMPTS, TINY_SIZES, lora)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("exact"), ("q", "v"))


def an_adapter(shape: AdapterShape) -> Adapter:
    random = np.random.default_rng(3)
    sizes = {slot.name: (slot.out_features, shape.rank) for slot in shape.slots}
    arrays = {name: random.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    return Adapter(shape, BASE, arrays)


def error(found: FloatArray, expected: FloatArray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def test_only_activations_are_rounded(made: Made) -> None:
    # Rounding these weights to 8 bits as well would double it; to 4 bits, 0.2.
    assert error(made.logits(), made.torch.logits(PROMPTS)) < 0.01


def test_hidden_states_have_batch_and_tokens_apart_and_are_torchs(made: Made) -> None:
    found = graph_values(made.folder / GRAPH_FILE, PROMPTS, TINY_SIZES, [HIDDEN_HEAD, HIDDEN_LAST])
    expected = made.torch.hidden(PROMPTS)
    assert error(found[HIDDEN_HEAD], expected[0]) < 0.01


def test_inputs_for_adapters_change_no_bit_by_themselves(made: Made) -> None:
    np.testing.assert_array_equal(made.logits(), made.logits(file=PLAIN_GRAPH))


def test_an_adapters_change_is_the_trained_one(made: Made) -> None:
    adapter = an_adapter(made.shape)
    expected = made.torch.logits(PROMPTS, adapter) - made.torch.logits(PROMPTS)
    assert np.abs(expected).max() > 1
    assert error(made.logits(adapter) - made.logits(), expected) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("targets", [("q", "k", "v", "o"), ("o",)])
def test_other_targets_are_changed_as_trained(tmp_path: Path, targets: tuple[str, ...]) -> None:
    made = Made(tmp_path, targets)
    adapter = an_adapter(made.shape)
    expected = made.torch.logits(PROMPTS, adapter) - made.torch.logits(PROMPTS)
    assert error(made.logits(adapter) - made.logits(), expected) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", ["blk.0.ffn_down.weight", "blk.1.attn_output.weight"])
def test_a_matrix_of_eight_bits_among_those_of_four_is_exact_too(tmp_path: Path, name: str) -> None:
    made = Made(tmp_path, ("q", "v"), {name: "Q8_0"})
    assert error(made.logits(), made.torch.logits(PROMPTS)) < 0.01


def test_one_sum_serves_all_that_read_an_input_and_the_embedding_is_the_output(made: Made) -> None:
    graph = onnx.load(str(made.folder / GRAPH_FILE), load_external_data=False).graph
    kinds = [node.op_type for node in graph.node]
    # qkv, o, gate with up, down in each layer, and the output matrix.
    assert kinds.count("MatMulNBits") == 4 * LAYERS + 1 == kinds.count("Gemm")
    assert kinds.count("GatherBlockQuantized") == 1
    assert not any("embed" in item.name for item in graph.initializer)
