from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedaigc.adapter import Adapter
from fedaigc.errors import ModelError
from fedaigc_edge.model.hf_folder import TorchReference, gguf_in, make_hf_folder, tokens_of
from fedaigc_edge.model.store import ModelFolder
from tests.tiny_model import make_tiny_hf_folder


def test_weights_are_float32_and_a_tied_output_is_stored_once(tiny_model: ModelFolder) -> None:
    from safetensors import safe_open

    with safe_open(tiny_model.hf / "model.safetensors", "np") as file:
        names = set(file.keys())
        kinds = {file.get_slice(name).get_dtype() for name in names}
    assert kinds == {"F32"}
    assert "lm_head.weight" not in names and "model.embed_tokens.weight" in names


def test_config_names_the_architecture_and_the_chat_template_came_along(tiny_model: ModelFolder) -> None:
    config = json.loads((tiny_model.hf / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert "quantization_config" not in config
    texts = [path.read_text() for path in tiny_model.hf.glob("*.jinja")]
    texts.append((tiny_model.hf / "tokenizer_config.json").read_text())
    assert any("im_start" in text for text in texts)


def test_weights_in_a_pickle_are_never_read(tmp_path: Path) -> None:
    source = make_tiny_hf_folder(tmp_path / "source")
    (source / "model.safetensors").rename(source / "pytorch_model.bin")
    with pytest.raises(ModelError):
        make_hf_folder(source, tmp_path / "hf")


def test_a_folder_without_tokenizer_is_a_model_error(tmp_path: Path) -> None:
    source = make_tiny_hf_folder(tmp_path / "source")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (source / name).unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        make_hf_folder(source, tmp_path / "hf")


def test_an_adapter_is_added_for_one_call_only(tiny_model: ModelFolder) -> None:
    reference = TorchReference(tiny_model.hf)
    prompts = tokens_of(tiny_model.hf, ["the quick brown fox"])
    before = reference.logits(prompts)
    arrays = {
        s.name: np.ones((s.out_features, tiny_model.shape.rank), np.float32) for s in tiny_model.shape.slots
    }
    changed = reference.logits(prompts, Adapter(tiny_model.shape, tiny_model.base_model, arrays))
    assert np.abs(changed - before).max() > 0.1
    np.testing.assert_allclose(reference.logits(prompts), before, atol=1e-4)


def test_a_gguf_file_is_found_in_its_folder(tmp_path: Path) -> None:
    assert gguf_in(tmp_path) is None
    (tmp_path / "model.Q4_1.gguf").touch()
    assert gguf_in(tmp_path) == tmp_path / "model.Q4_1.gguf"
