from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedaigc.errors import ModelError
from fedaigc_edge.model.batching_graph import HIDDEN_LAST
from fedaigc_edge.model.graph_runs import graph_logits, graph_values
from fedaigc_edge.model.hf_folder import TorchReference
from fedaigc_edge.model.store import ModelFolder
from tests.tiny_model import HIDDEN, TINY_SIZES

PROMPTS = ([5, 6, 7], [40, 41, 42, 43])


def test_every_token_has_its_row_and_it_is_torchs(tiny_model: ModelFolder) -> None:
    expected = TorchReference(tiny_model.hf).logits(PROMPTS)
    found = graph_logits(tiny_model.batch_graph, PROMPTS, TINY_SIZES)
    assert found.shape == expected.shape == (7, TINY_SIZES.vocabulary)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_inner_values_are_read_and_nothing_is_left_behind(tiny_model: ModelFolder) -> None:
    before = sorted(path.name for path in tiny_model.onnx.iterdir())
    inner = "/model/layers.1/input_layernorm/output_0"
    found = graph_values(tiny_model.batch_graph, PROMPTS, TINY_SIZES, [inner, HIDDEN_LAST])
    assert {name: values.shape for name, values in found.items()} == {
        inner: (7, HIDDEN),
        HIDDEN_LAST: (7, HIDDEN),
    }
    assert sorted(path.name for path in tiny_model.onnx.iterdir()) == before


def test_a_damaged_graph_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelError, match="does not run"):
        graph_logits(tmp_path / "m.onnx", PROMPTS, TINY_SIZES)
