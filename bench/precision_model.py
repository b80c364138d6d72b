"""One export under measurement: what it says of a text, and how long a token takes it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import psutil

from fedaigc.arrays import FloatArray
from fedaigc_edge.engine.adapter_rows import no_adapter
from fedaigc_edge.engine.graph_session import GraphSession, Step
from fedaigc_edge.engine.kv_pool import KvPool, KvShape
from fedaigc_edge.model.batching_graph import HIDDEN_LAST
from fedaigc_edge.model.store import ModelFolder

DECODE_CONTEXT = 128
"""Tokens before those that are timed."""
_POOL_BYTES = 1 << 30
_THREADS = 1


@dataclass(frozen=True)
class Said:
    """Of one window: each token's loss in nats, the likeliest tokens, and the last hidden states."""

    losses: npt.NDArray[np.float64]
    top: npt.NDArray[np.int64]
    hidden: FloatArray


class PrecisionModel:
    """An export, loaded.

    Args:
        model: the export.
        window: tokens of the longest text that it will read.
    """

    def __init__(self, model: ModelFolder, window: int) -> None:
        sizes = model.architecture
        self.model = model
        self._pool = KvPool(
            KvShape(sizes.layers, sizes.kv_heads, sizes.head_dim),
            1,
            max(window, 2 * DECODE_CONTEXT),
            _POOL_BYTES,
        )
        before = psutil.Process().memory_info().rss
        self._graph = GraphSession(
            model.batch_graph, self._pool.arrays, sizes.vocabulary, sizes.hidden, _THREADS
        )
        self.loaded_mb = (psutil.Process().memory_info().rss - before) / 1e6
        self._none = no_adapter(model.lora_inputs)

    @property
    def size_mb(self) -> float:
        """Graph and weights on disk, 10^6 bytes."""
        files = [path for path in self.model.onnx.iterdir() if path.name.startswith("model.onnx")]
        return sum(path.stat().st_size for path in files) / 1e6

    def read(self, window: npt.NDArray[np.int64]) -> Said:
        """What it says at each place of a text, given what comes before."""
        length = len(window)
        step = Step(0, window[None], np.array([length]), np.arange(length), self._none)
        found = self._graph.run(step, HIDDEN_LAST)
        logits = found.logits[:-1].astype(np.float64)
        highest = logits.max(axis=-1, keepdims=True)
        total = np.log(np.exp(logits - highest).sum(axis=-1)) + highest[:, 0]
        losses = total - logits[np.arange(length - 1), window[1:]]
        hidden = np.zeros((0,), np.float32) if found.hidden is None else found.hidden[0].copy()
        return Said(losses, logits.argmax(axis=-1), hidden)

    def decode_s(self, tokens: int) -> float:
        """Seconds that this thread computes for one token, over `tokens` of them, one at a time."""
        began = time.thread_time()
        for place in range(tokens):
            length = DECODE_CONTEXT + place % DECODE_CONTEXT + 1
            one = np.array([[place % self.model.architecture.vocabulary]], np.int64)
            self._graph.run(Step(0, one, np.array([length]), np.array([0]), self._none))
        return (time.thread_time() - began) / tokens
