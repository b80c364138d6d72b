"""Perplexity of the served graph itself: `python -m bench.served_perplexity MODEL_ROOT WINDOWS.npy THREADS`.

A process of its own, so that the logits of a whole window (200 MB) are given back when it ends.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedaigc_edge.model.quiet_runtime import quiet_runtimes
from fedaigc_edge.model.store import ModelFolder, read_record


def perplexity(model: ModelFolder, windows: npt.NDArray[np.int64], threads: int) -> float:
    """Of each token given those before it in its window, in teacher forcing."""
    quiet_runtimes()
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(str(model.batch_graph), options, providers=["CPUExecutionProvider"])
    sizes = model.architecture
    nothing_yet = np.zeros((1, sizes.kv_heads, 0, sizes.head_dim), np.float32)
    pasts = [item.name for item in session.get_inputs() if item.name.startswith("past_key_values.")]
    losses = [_losses(session, window, dict.fromkeys(pasts, nothing_yet)) for window in windows]
    return float(np.exp(np.mean(losses)))


def _losses(session: Any, window: npt.NDArray[np.int64], past: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    length = len(window)
    ask = {
        "input_ids": window[None],
        "attention_mask": np.ones((1, length), np.int64),
        "logit_rows": np.arange(length),
    }
    (logits,) = session.run(["logits"], {**ask, **past})
    scores = logits[:-1].astype(np.float64)
    top = scores.max(axis=-1, keepdims=True)
    total = np.log(np.exp(scores - top).sum(axis=-1)) + top[:, 0]
    return np.asarray(total - scores[np.arange(length - 1), window[1:]])


if __name__ == "__main__":
    print(perplexity(read_record(Path(sys.argv[1])), np.load(sys.argv[2]), int(sys.argv[3])))
