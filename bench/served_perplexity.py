"""Perplexity of the served graph itself: `python -m bench.served_perplexity MODEL_ROOT WINDOWS.npy THREADS`.

A process of its own, so that the logits of a whole window (200 MB) are given back when it ends.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedaigc_edge.model.quiet_runtime import quiet_runtimes


def perplexity(graph: Path, windows: npt.NDArray[np.int64], threads: int) -> float:
    """Of each token given those before it in its window, in teacher forcing."""
    quiet_runtimes()
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    losses = [_losses(session, window) for window in windows]
    return float(np.exp(np.mean(losses)))


def _losses(session: Any, window: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    length = len(window)
    feeds = {
        "input_ids": window[None],
        "attention_mask": np.ones((1, length), np.int64),
        "position_ids": np.arange(length)[None],
        "logit_rows": np.arange(length),
    }
    needed = {item.name: item.shape for item in session.get_inputs()}
    feeds = {name: value for name, value in feeds.items() if name in needed}
    for name, shape in needed.items():
        if name.startswith("past_key_values."):
            feeds[name] = np.zeros((1, shape[1], 0, shape[3]), np.float32)
    (logits,) = session.run(["logits"], feeds)
    scores = logits.reshape(length, -1)[:-1].astype(np.float64)
    top = scores.max(axis=-1, keepdims=True)
    total = np.log(np.exp(scores - top).sum(axis=-1)) + top[:, 0]
    return np.asarray(total - scores[np.arange(length - 1), window[1:]])


if __name__ == "__main__":
    print(perplexity(Path(sys.argv[1]) / "onnx" / "model.onnx", np.load(sys.argv[2]), int(sys.argv[3])))
