from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.exact_weights import ExactWeights
from fedaigc_edge.model.gguf_blocks import GgufBlocks
from tests.edge.model.tiny_gguf import WEIGHTS, quantised_tiny
from tests.tiny_model import TINY_SIZES


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[ExactWeights, dict[str, FloatArray]]:
    from safetensors.numpy import load_file

    source, hf = quantised_tiny(tmp_path_factory.mktemp("exact"))
    weights = ExactWeights(GgufBlocks(source / "tiny.gguf"), TINY_SIZES, "llama")
    return weights, load_file(hf / WEIGHTS)


def attention(weights: dict[str, FloatArray], *names: str) -> FloatArray:
    parts = [weights[f"model.layers.1.self_attn.{name}.weight"] for name in names]
    return np.ascontiguousarray(np.concatenate(parts).T)


def test_a_fused_product_gets_its_parts_in_order(
    made: tuple[ExactWeights, dict[str, FloatArray]],
) -> None:
    weights, dense = made
    expected = attention(dense, "q_proj", "k_proj", "v_proj")
    found = weights.product(1, ("q_proj", "k_proj", "v_proj"), expected)
    np.testing.assert_allclose(found.dense().T, expected, atol=1e-6)


def test_other_weights_are_refused(made: tuple[ExactWeights, dict[str, FloatArray]]) -> None:
    weights, dense = made
    wrong = attention(dense, "q_proj", "k_proj", "v_proj")
    wrong[3, 5] += 0.01
    with pytest.raises(ModelError, match="not those of the model"):
        weights.product(1, ("q_proj", "k_proj", "v_proj"), wrong)


def test_rows_in_a_converters_order_are_refused_for_a_family_that_has_none(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    source, hf = quantised_tiny(tmp_path)
    weights = ExactWeights(GgufBlocks(source / "tiny.gguf"), TINY_SIZES, "qwen3")
    with pytest.raises(ModelError, match="not those of the model"):
        weights.product(1, ("q_proj",), attention(load_file(hf / WEIGHTS), "q_proj"))


def test_a_tied_output_matrix_is_the_embedding(made: tuple[ExactWeights, dict[str, FloatArray]]) -> None:
    weights, dense = made
    embedding = dense["model.embed_tokens.weight"]
    found = weights.output(embedding.T)
    assert found.bits == 8
    np.testing.assert_allclose(found.dense(), embedding, atol=1e-6)
