"""A real but tiny model for tests: two random layers, a real byte-level tokenizer, exported in seconds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from fedaigc.arrays import FloatArray
from fedaigc_edge.model.architecture import Architecture
from fedaigc_edge.model.export import ExportPlan, export
from fedaigc_edge.model.pull import pull
from fedaigc_edge.model.store import ModelFolder

TINY_NAME = "tiny"
TINY_SEED = 7
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER = 2, 64, 4, 2, 16, 128
CONTEXT, VOCABULARY = 256, 300
TINY_SIZES = Architecture(LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, CONTEXT, VOCABULARY, tied=True)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_CORPUS = ["the quick brown fox jumps over the lazy dog", "a policy is an adapter and a reward head"] * 4


def make_tiny_hf_folder(path: Path, tied: bool = True, family: str = "llama") -> Path:
    """Write config, tokenizer and random weights of a two-layer model to `path`; returns it. No torch."""
    path.mkdir(parents=True)
    vocabulary = _write_tokenizer(path)
    architecture = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
    config = {
        "architectures": [architecture.get(family, "OtherForCausalLM")],
        "model_type": family,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": CONTEXT,
        "vocab_size": vocabulary,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "torch_dtype": "float32",
    }
    (path / "config.json").write_text(json.dumps(config))
    _write_weights(path, vocabulary, tied, family)
    return path


def export_tiny(folder: Path, models: Path, name: str = TINY_NAME, precision: str = "fp32") -> ModelFolder:
    """Pull and export a tiny folder; fp32 by default, so that trained and served differ by rounding only."""
    pull(str(folder), models, lambda step: None, name)
    return export(name, models, lambda step: None, ExportPlan(precision, lora_layers=2, rank=4, alpha=8.0))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """The tiny model, exported once a session. Read it only; use `copy_of` to change one."""
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime_genai")
    root = tmp_path_factory.mktemp("tiny")
    return export_tiny(make_tiny_hf_folder(root / "hf"), root / "models")


def copy_of(model: ModelFolder, models: Path) -> Path:
    """A copy of an exported model's folder in the store `models`, to be damaged freely; returns the store."""
    shutil.copytree(model.root, models / model.name)
    return models


def _write_tokenizer(path: Path) -> int:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.save(str(path / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[1],
        "eos_token": SPECIAL[2],
        "pad_token": SPECIAL[2],
        "unk_token": SPECIAL[0],
        "chat_template": CHAT_TEMPLATE,
        "model_max_length": CONTEXT,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return int(tokenizer.get_vocab_size())


def _write_weights(path: Path, vocabulary: int, tied: bool, family: str) -> None:
    from safetensors.numpy import save_file

    random = np.random.default_rng(TINY_SEED)

    def matrix(rows: int, columns: int) -> FloatArray:
        return np.asarray(random.standard_normal((rows, columns)) / np.sqrt(columns), dtype=np.float32)

    ones = np.ones(HIDDEN, np.float32)
    weights = {"model.embed_tokens.weight": matrix(vocabulary, HIDDEN), "model.norm.weight": 4 * ones}
    if not tied:
        weights["lm_head.weight"] = matrix(vocabulary, HIDDEN)
    for layer in range(LAYERS):
        stem = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{stem}{name}.weight"] = ones
        sizes = {"q": HEADS * HEAD_DIM, "k": KV_HEADS * HEAD_DIM, "v": KV_HEADS * HEAD_DIM}
        for name, rows in sizes.items():
            weights[f"{stem}self_attn.{name}_proj.weight"] = matrix(rows, HIDDEN)
            if family == "qwen2":
                weights[f"{stem}self_attn.{name}_proj.bias"] = matrix(1, rows)[0]
        if family == "qwen3":
            weights |= {f"{stem}self_attn.{n}_norm.weight": np.ones(HEAD_DIM, np.float32) for n in "qk"}
        weights[f"{stem}self_attn.o_proj.weight"] = matrix(HIDDEN, HEADS * HEAD_DIM)
        weights[f"{stem}mlp.gate_proj.weight"] = matrix(INNER, HIDDEN)
        weights[f"{stem}mlp.up_proj.weight"] = matrix(INNER, HIDDEN)
        weights[f"{stem}mlp.down_proj.weight"] = matrix(HIDDEN, INNER)
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
