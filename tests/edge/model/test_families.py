from __future__ import annotations

import json
from pathlib import Path

import gguf
import pytest

from fedaigc.errors import ModelError
from fedaigc_edge.model.families import FAMILIES, family_of, missing_extra


def write_gguf(path: Path, architecture: str) -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def write_config(folder: Path, **config: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gguf_file_of_a_known_family_is_recognised(tmp_path: Path, family: str) -> None:
    assert family_of(write_gguf(tmp_path / "m.gguf", family)) == family


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_of_a_known_family_is_recognised(tmp_path: Path, family: str) -> None:
    config = write_config(tmp_path, model_type=family, architectures=[FAMILIES[family]])
    assert family_of(config) == family


def test_another_family_is_refused_with_the_known_ones_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="gemma3") as refused:
        family_of(write_gguf(tmp_path / "m.gguf", "gemma3"))
    assert all(family in refused.value.why for family in FAMILIES)


def test_a_known_type_with_another_architecture_is_refused(tmp_path: Path) -> None:
    write_config(tmp_path, model_type="llama", architectures=["LlamaForSequenceClassification"])
    with pytest.raises(ModelError, match="cannot be exported"):
        family_of(tmp_path)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF" + b"\xff" * 64, b"\x80\x04pickle"])
def test_a_damaged_or_foreign_file_is_a_model_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError):
        family_of(path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"model_type": "llama"}', '{"architectures": null}'])
def test_a_damaged_config_is_a_model_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError):
        family_of(tmp_path)


def test_a_path_that_is_not_there_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        family_of(tmp_path / "nothing.gguf")


def test_a_missing_package_names_the_extra() -> None:
    assert "fedaigc[edge,train]" in missing_extra(ImportError(name="torch")).do_next
