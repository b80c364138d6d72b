"""What a served model says, for tests: logits of its graph, and answers of the whole engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc_edge.engine.adapter_rows import no_adapter
from fedaigc_edge.engine.batching_generator import BatchingGenerator
from fedaigc_edge.engine.generator import Job
from fedaigc_edge.engine.graph_session import GraphSession, Step
from fedaigc_edge.engine.kv_pool import KvPool, KvShape
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.engine.text_codec import TextCodec
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.policy.adapter_export import read_adapter_inputs


class ServedLogits:
    """The batching graph of a model, run on whole prompts."""

    def __init__(self, model: ModelFolder) -> None:
        sizes = model.architecture
        shape = KvShape(sizes.layers, sizes.kv_heads, sizes.head_dim)
        self._pool = KvPool(shape, 1, min(sizes.context, 512), 1 << 30)
        self._graph = GraphSession(model.batch_graph, self._pool.arrays, sizes.vocabulary, sizes.hidden, 1)
        self._none = no_adapter(model.lora_inputs)
        self.codec = TextCodec.open(model.onnx)

    def last(self, texts: Sequence[str], adapter: Path | None = None) -> FloatArray:
        """Logits after each text, (texts, vocabulary), under the adapter in a file."""
        lora = self._none if adapter is None else read_adapter_inputs(adapter)
        rows = []
        for text in texts:
            tokens = np.array([self.codec.encode(text)], np.int64)
            length = tokens.shape[1]
            step = Step(0, tokens, np.array([length]), np.array([length - 1]), lora)
            rows.append(self._graph.run(step).logits[0].copy())
        return np.stack(rows)


def answer_text(generator: BatchingGenerator, text: str, tokens: int, adapter: str | None = None) -> str:
    """A greedy answer; callable from any thread that has no event loop."""

    async def go() -> str:
        job = Job(tuple(generator.encode(text)), Sampling(tokens, temperature=0), adapter)
        (generation,) = generator.start([job])
        return "".join([piece.text async for piece in generation])

    return asyncio.run(go())
