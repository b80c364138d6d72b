from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import ModelError
from fedaigc_edge.model.served_graph import PLAIN_GRAPH, Q41_EXACT, best_precision, check_precision
from fedaigc_edge.model.store import ModelFolder
from tests.edge.model.test_gguf_blocks import file_of


def test_a_file_of_exact_types_is_served_exactly(tmp_path: Path) -> None:
    file_of(tmp_path / "m.gguf", a="Q4_1", b="Q8_0")
    assert best_precision(tmp_path) == Q41_EXACT
    check_precision(tmp_path, Q41_EXACT)


def test_a_file_of_other_types_gets_eight_bits_and_says_why(tmp_path: Path) -> None:
    file_of(tmp_path / "m.gguf", a="Q4_1", b="Q5_0")
    assert best_precision(tmp_path) == "int8"
    with pytest.raises(ModelError, match=Q41_EXACT) as refused:
        check_precision(tmp_path, Q41_EXACT)
    assert "b (Q5_0)" in refused.value.why and refused.value.do_next == "export with --precision int8"


def test_a_hugging_face_folder_gets_eight_bits(tmp_path: Path) -> None:
    assert best_precision(tmp_path) == "int8"
    with pytest.raises(ModelError, match="cannot be exported"):
        check_precision(tmp_path, Q41_EXACT)


def test_an_unknown_precision_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as refused:
        check_precision(tmp_path, "int2")
    assert Q41_EXACT in refused.value.why


def test_what_is_served_has_no_file_of_another_runtime_and_none_of_ours_between(
    tiny_model: ModelFolder,
) -> None:
    names = {path.name for path in tiny_model.onnx.iterdir()}
    assert {"model.onnx", "model.onnx.data", "tokenizer.json"} <= names
    assert not {PLAIN_GRAPH, "built.onnx", "genai_config.json", "changed"} & names
