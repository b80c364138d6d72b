from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedaigc_edge.model.batching_graph import make_batching_graph
from fedaigc_edge.model.graph_builder import build_graph
from fedaigc_edge.model.graph_runs import graph_logits
from fedaigc_edge.model.shared_embedding import DATA_FILE, share_embedding
from fedaigc_edge.model.store import GRAPH_FILE, ModelFolder
from tests.tiny_model import HIDDEN, LAYERS, TINY_SIZES

PROMPTS = [[5, 6, 7], [40, 41, 42, 43, 44]]


@pytest.fixture(scope="module")
def built(tiny_model: ModelFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "int8"
    build_graph(tiny_model.hf, folder, "int8", folder.with_name("log"))
    return folder


@pytest.mark.slow
def test_sharing_saves_the_fp32_copy_and_keeps_the_logits(
    built: Path, tiny_model: ModelFolder, tmp_path: Path
) -> None:
    assert share_embedding(built / GRAPH_FILE, tmp_path / GRAPH_FILE)
    embedding = 300 * 64 * 4
    saved = (built / DATA_FILE).stat().st_size - (tmp_path / DATA_FILE).stat().st_size
    assert saved > 0.8 * embedding
    for folder in (built, tmp_path):
        make_batching_graph(folder / GRAPH_FILE, folder / "batching.onnx", 1, LAYERS, HIDDEN)
    before = graph_logits(built / "batching.onnx", PROMPTS, TINY_SIZES)
    after = graph_logits(tmp_path / "batching.onnx", PROMPTS, TINY_SIZES)
    cosine = float((before * after).sum() / np.linalg.norm(before) / np.linalg.norm(after))
    assert cosine > 0.999


def test_a_graph_without_an_8_bit_output_is_left_alone(tiny_model: ModelFolder, tmp_path: Path) -> None:
    assert not share_embedding(tiny_model.onnx / GRAPH_FILE, tmp_path / GRAPH_FILE)
    assert list(tmp_path.iterdir()) == []
