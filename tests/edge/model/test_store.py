from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedaigc.errors import ModelError
from fedaigc_edge.model.content_hashes import folder_digest, hash_folder
from fedaigc_edge.model.store import RECORD_FILE, ModelFolder, list_models, model_root, open_model
from tests.tiny_model import TINY_NAME, TINY_SIZES, copy_of


def test_an_exported_model_opens_with_the_hash_of_its_served_folder(tiny_model: ModelFolder) -> None:
    opened = open_model(tiny_model.root.parent, TINY_NAME)
    assert opened == tiny_model
    assert opened.base_model == folder_digest(hash_folder(tiny_model.onnx))
    assert (opened.head_layer, opened.head_dim) == (1, 64)
    assert (opened.architecture, opened.eos_tokens) == (TINY_SIZES, (2,))
    assert opened.shape.rank == 4 and len(opened.shape.slots) == 4


def test_hashes_cover_source_training_folder_and_served_folder(tiny_model: ModelFolder) -> None:
    tops = {path.split("/")[0] for path in tiny_model.files}
    assert tops == {"source", "hf", "onnx"}
    tiny_model.verify("source", "hf", "onnx")


@pytest.mark.parametrize("file", ["onnx/model.onnx.data", "onnx/tokenizer.json", "onnx/model.onnx"])
def test_one_changed_byte_is_found_and_its_file_named(
    tiny_model: ModelFolder, tmp_path: Path, file: str
) -> None:
    models = copy_of(tiny_model, tmp_path)
    path = models / TINY_NAME / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelError, match="damaged") as refused:
        open_model(models, TINY_NAME)
    assert file in refused.value.why and "model export tiny" in refused.value.do_next


def test_an_added_or_missing_file_is_found(tiny_model: ModelFolder, tmp_path: Path) -> None:
    models = copy_of(tiny_model, tmp_path)
    (models / TINY_NAME / "onnx" / "extra").touch()
    with pytest.raises(ModelError, match="damaged"):
        open_model(models, TINY_NAME)
    (models / TINY_NAME / "onnx" / "extra").unlink()
    (models / TINY_NAME / "onnx" / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="damaged"):
        open_model(models, TINY_NAME)


def test_a_record_that_names_another_hash_is_refused(tiny_model: ModelFolder, tmp_path: Path) -> None:
    models = copy_of(tiny_model, tmp_path)
    path = models / TINY_NAME / RECORD_FILE
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "base_model": "00" * 32}))
    with pytest.raises(ModelError, match="damaged"):
        open_model(models, TINY_NAME)


def test_a_record_of_another_version_says_to_export_again(tiny_model: ModelFolder, tmp_path: Path) -> None:
    models = copy_of(tiny_model, tmp_path)
    path = models / TINY_NAME / RECORD_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "v": 1}))
    with pytest.raises(ModelError, match="another version") as refused:
        open_model(models, TINY_NAME)
    assert refused.value.do_next.endswith("model export tiny")


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"v": 1}'])
def test_a_damaged_record_is_a_model_error(tiny_model: ModelFolder, tmp_path: Path, content: str) -> None:
    models = copy_of(tiny_model, tmp_path)
    (models / TINY_NAME / RECORD_FILE).write_text(content)
    with pytest.raises(ModelError, match="damaged"):
        open_model(models, TINY_NAME)


def test_a_model_that_is_not_there_names_the_commands(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as refused:
        open_model(tmp_path, "smollm2-135m")
    assert "model pull smollm2-135m" in refused.value.do_next


def test_a_pulled_model_names_the_export_command(tmp_path: Path) -> None:
    (tmp_path / "m" / "source").mkdir(parents=True)
    with pytest.raises(ModelError, match="not exported yet") as refused:
        open_model(tmp_path, "m")
    assert refused.value.do_next.endswith("model export m")


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "UPPER", "x" * 65, "a b"])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="Not a model name"):
        model_root(tmp_path, name)


def test_the_list_tells_pulled_from_exported(tiny_model: ModelFolder, tmp_path: Path) -> None:
    models = copy_of(tiny_model, tmp_path)
    (models / "waiting" / "source").mkdir(parents=True)
    (models / "not-a-model").mkdir()
    rows = list_models(models)
    assert [(row["name"], row["state"]) for row in rows] == [("tiny", "exported"), ("waiting", "pulled")]
    assert rows[0]["base_model"] == tiny_model.base_model and rows[0]["bytes"] > 0
    assert list_models(tmp_path / "nowhere") == []
