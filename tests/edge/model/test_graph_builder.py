from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedaigc.errors import ModelError
from fedaigc_edge.model import graph_builder
from fedaigc_edge.model.graph_builder import build_graph
from fedaigc_edge.model.store import ModelFolder


@pytest.mark.slow
def test_a_folder_that_is_no_model_fails_with_the_builders_last_line(tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "config.json").write_text(json.dumps({"model_type": "nothing-known"}))
    with pytest.raises(ModelError, match="builder failed") as refused:
        build_graph(tmp_path / "hf", tmp_path / "onnx", "int8", tmp_path / "log")
    assert refused.value.why and str(tmp_path / "log") in refused.value.do_next
    assert (tmp_path / "log").stat().st_size > 0


def test_a_builder_that_is_not_installed_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hf").mkdir()
    monkeypatch.setattr(graph_builder, "BUILDER", "no_such_package.builder")
    with pytest.raises(ModelError) as refused:
        build_graph(tmp_path / "hf", tmp_path / "onnx", "int8", tmp_path / "log")
    assert "fedaigc[edge,train]" in refused.value.do_next


def test_the_served_folder_is_complete_and_the_cache_is_gone(tiny_model: ModelFolder) -> None:
    names = {path.name for path in tiny_model.onnx.iterdir()}
    assert {"model.onnx", "model.onnx.data", "tokenizer.json"} <= names
    assert not [path for path in tiny_model.root.iterdir() if "cache" in path.name or "part" in path.name]
