"""The tiny model with quantised weights: a GGUF file, and a Hugging Face folder of the same numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc_edge.model.architecture import architecture_of
from fedaigc_edge.model.exact_weights import GGUF_NAMES
from tests.tiny_model import HEADS, KV_HEADS, LAYERS, make_tiny_hf_folder

WEIGHTS = "model.safetensors"


def quantised_tiny(folder: Path, kinds: Mapping[str, str] | None = None) -> tuple[Path, Path]:
    """Write source/ with the GGUF file and hf/ to `folder`; returns both.

    `kinds` gives GGUF names of other types than Q4_1, with "token_embd.weight" Q8_0 from the start.
    """
    from safetensors.numpy import load_file, save_file

    source, hf = folder / "source", make_tiny_hf_folder(folder / "hf")
    source.mkdir()
    weights = load_file(hf / WEIGHTS)
    wanted = {"token_embd.weight": "Q8_0", **(kinds or {})}
    writer = gguf.GGUFWriter(source / "tiny.gguf", "llama")
    embedding = "model.embed_tokens.weight"
    weights[embedding] = _put(writer, "token_embd.weight", weights[embedding], wanted)
    for layer in range(LAYERS):
        for projection, theirs in GGUF_NAMES.items():
            part = "self_attn" if projection[0] in "qkvo" and projection != "up_proj" else "mlp"
            name = f"model.layers.{layer}.{part}.{projection}.weight"
            heads = {"q_proj": HEADS, "k_proj": KV_HEADS}.get(projection)
            matrix = weights[name] if heads is None else permuted(weights[name], heads)
            stored = _put(writer, f"blk.{layer}.{theirs}.weight", matrix, wanted)
            weights[name] = stored if heads is None else unpermuted(stored, heads)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file({name: np.ascontiguousarray(w) for name, w in weights.items()}, hf / WEIGHTS, {"format": "pt"})
    assert architecture_of(hf).layers == LAYERS
    return source, hf


def permuted(matrix: FloatArray, heads: int) -> FloatArray:
    """As llama.cpp's converter does it: the two halves of each head's rows, one from each in turn."""
    halves = matrix.reshape(heads, 2, len(matrix) // heads // 2, -1)
    return halves.swapaxes(1, 2).reshape(matrix.shape)


def unpermuted(matrix: FloatArray, heads: int) -> FloatArray:
    """The inverse of `permuted`."""
    pairs = matrix.reshape(heads, len(matrix) // heads // 2, 2, -1)
    return pairs.swapaxes(1, 2).reshape(matrix.shape)


def _put(writer: Any, name: str, matrix: FloatArray, wanted: Mapping[str, str]) -> FloatArray:
    kind = gguf.GGMLQuantizationType[wanted.get(name, "Q4_1")]
    if kind == gguf.GGMLQuantizationType.F32:
        writer.add_tensor(name, matrix)
        return matrix
    packed = gguf.quants.quantize(matrix, kind)
    writer.add_tensor(name, packed, raw_dtype=kind)
    return np.asarray(gguf.quants.dequantize(packed, kind), np.float32)
