from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import FolderInUse, ModelError
from fedaigc.files import folder_lock
from fedaigc_edge.model.pull import ORIGIN_FILE, name_for, origin_of, pull, source_model
from tests.edge.model.test_families import write_gguf
from tests.tiny_model import make_tiny_hf_folder


def quiet(step: str) -> None:
    assert step


def test_a_folder_is_copied_without_what_is_not_the_model(tmp_path: Path) -> None:
    folder = make_tiny_hf_folder(tmp_path / "My Model")
    (folder / "modeling_evil.py").write_text("raise SystemExit")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    (folder / "optimizer.safetensors").write_bytes(b"")
    pulled = pull(str(folder), tmp_path / "models", quiet)
    assert (pulled.name, pulled.family, pulled.fetched) == ("my-model", "llama", True)
    names = {path.name for path in pulled.source.iterdir()}
    assert names == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        ORIGIN_FILE,
    }


def test_a_gguf_file_is_copied_and_found_again(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "Some.Q8_0.gguf", "qwen3")
    pulled = pull(str(file), tmp_path / "models", quiet)
    assert (pulled.name, pulled.family) == ("some.q8_0", "qwen3")
    assert source_model(pulled.source).read_bytes() == file.read_bytes()
    assert origin_of(pulled.source) == (str(file), "qwen3")


def test_the_second_run_fetches_nothing(tmp_path: Path) -> None:
    folder = make_tiny_hf_folder(tmp_path / "hf")
    first = pull(str(folder), tmp_path / "models", quiet)
    stamp = (first.source / "model.safetensors").stat().st_mtime_ns
    second = pull(str(folder), tmp_path / "models", quiet)
    assert not second.fetched
    assert (second.source / "model.safetensors").stat().st_mtime_ns == stamp


def test_a_killed_run_leaves_nothing_that_counts_and_the_next_run_finishes(tmp_path: Path) -> None:
    folder = make_tiny_hf_folder(tmp_path / "hf")
    part = tmp_path / "models" / "hf" / ".source.part"
    part.mkdir(parents=True)
    (part / "model.safetensors").write_bytes(b"half")
    (part / "stray").touch()
    pulled = pull(str(folder), tmp_path / "models", quiet)
    assert pulled.fetched and not (pulled.source / "stray").exists() and not part.exists()


def test_a_source_that_does_not_say_what_it_is_is_fetched_again(tmp_path: Path) -> None:
    folder = make_tiny_hf_folder(tmp_path / "hf")
    source = pull(str(folder), tmp_path / "models", quiet).source
    (source / ORIGIN_FILE).write_text("{}")
    (source / "stray").touch()
    assert pull(str(folder), tmp_path / "models", quiet).fetched
    assert not (source / "stray").exists() and origin_of(source) == (str(folder), "llama")


def test_another_model_under_a_used_name_is_refused(tmp_path: Path) -> None:
    pull(str(make_tiny_hf_folder(tmp_path / "a" / "hf")), tmp_path / "models", quiet)
    other = make_tiny_hf_folder(tmp_path / "b" / "hf")
    with pytest.raises(ModelError, match="already called hf") as refused:
        pull(str(other), tmp_path / "models", quiet)
    assert "--name" in refused.value.do_next
    assert pull(str(other), tmp_path / "models", quiet, name="other").fetched


def test_another_family_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = make_tiny_hf_folder(tmp_path / "hf", family="mamba")
    with pytest.raises(ModelError, match="mamba"):
        pull(str(folder), tmp_path / "models", quiet)
    assert not (tmp_path / "models" / "hf" / "source").exists()


def test_a_folder_with_pickled_weights_only_is_refused(tmp_path: Path) -> None:
    folder = make_tiny_hf_folder(tmp_path / "hf")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"no \*\.safetensors") as refused:
        pull(str(folder), tmp_path / "models", quiet)
    assert "pickle" in refused.value.why


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as refused:
        pull("no-such-model", tmp_path, quiet)
    assert "smollm2-135m" in refused.value.why


def test_two_pulls_of_one_name_do_not_mix(tmp_path: Path) -> None:
    folder = make_tiny_hf_folder(tmp_path / "hf")
    with folder_lock(tmp_path / "models" / "hf"), pytest.raises(FolderInUse):
        pull(str(folder), tmp_path / "models", quiet)


def test_names_are_made_from_stems() -> None:
    assert name_for(Path("/x/SmolLM2 135M (chat).Q4_1.gguf")) == "smollm2-135m-chat-.q4_1"
    with pytest.raises(ModelError, match="No name"):
        name_for(Path("/x/___.gguf"))
