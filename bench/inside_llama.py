"""What only llama.cpp's own library can do: run as a file by the Python of `.bench/llama`, never imported.

python inside_llama.py quantise SOURCE.gguf TARGET.gguf
python inside_llama.py perplexity MODEL.gguf WINDOWS.npy THREADS     prints one number
"""

from __future__ import annotations

import sys

import llama_cpp
import numpy as np


def quantise(source: str, target: str) -> None:
    """Requantise a GGUF file to Q4_0."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    params.allow_requantize = True
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), params) != 0:
        sys.exit("llama_model_quantize failed")


def perplexity(model: str, windows: str, threads: int) -> float:
    """Of each token given those before it in its window, in teacher forcing."""
    tokens = np.load(windows)
    length = tokens.shape[1]
    loaded = llama_cpp.Llama(
        model, n_ctx=length, n_batch=length, logits_all=True, verbose=False,
        n_threads=threads, n_threads_batch=threads,
    )  # fmt: skip
    losses = []
    for window in tokens:
        loaded.reset()
        loaded.eval(window.tolist())
        scores = np.asarray(loaded.scores[: length - 1], dtype=np.float64)
        top = scores.max(axis=-1, keepdims=True)
        total = np.log(np.exp(scores - top).sum(axis=-1)) + top[:, 0]
        losses.append(total - scores[np.arange(length - 1), window[1:]])
    return float(np.exp(np.mean(losses)))


if __name__ == "__main__":
    if sys.argv[1] == "quantise":
        quantise(*sys.argv[2:4])
    else:
        print(perplexity(sys.argv[2], sys.argv[3], int(sys.argv[4])))
