"""The Generator over the batching engine: one model, one thread that computes, callers on event loops."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError, RequestInvalid
from fedaigc_edge.engine.adapter_shelf import AdapterShelf
from fedaigc_edge.engine.batcher import Batcher
from fedaigc_edge.engine.batching_window import BatchingWindow
from fedaigc_edge.engine.constraint import Constraints
from fedaigc_edge.engine.draft_length import DraftBounds
from fedaigc_edge.engine.generator import Generation, Job
from fedaigc_edge.engine.graph_session import GraphSession
from fedaigc_edge.engine.huge_pages import use_huge_pages
from fedaigc_edge.engine.job_line import JobLine
from fedaigc_edge.engine.kv_pool import KvPool, KvShape
from fedaigc_edge.engine.running_answer import EngineGeneration, RunningAnswer
from fedaigc_edge.engine.sampling import Grammar, Sampling
from fedaigc_edge.engine.speculation import Speculation
from fedaigc_edge.engine.text_codec import TextCodec
from fedaigc_edge.engine.token_sampler import TokenSampler
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.policy.adapter_export import read_adapter_inputs
from fedaigc_edge.serve.request import ContextTooLong

SWITCH_S = 0.0005
"""How long another thread may keep the interpreter lock while the engine waits for it; Python's own 5 ms is
as long as a whole step."""


@dataclass(frozen=True)
class EngineSettings:
    """How much of the machine the engine may use.

    `kv_bytes` bounds the keys and values of all slots together; `adapter_bytes` the adapters that are loaded.
    """

    slots: int = 8
    waiting: int = 256
    kv_bytes: int = 256 << 20
    adapter_bytes: int = 64 << 20
    threads: int = 0
    drafts: Literal["auto", "always", "never"] = "auto"
    """auto: answers that need not repeat, see speculation.py."""


class BatchingGenerator:
    """See Generator. `start` and `embed` belong on an event loop; everything else to any thread.

    Args:
        model: an exported model whose hashes were checked. Raises ModelError when it cannot be loaded.
        window: when those who wait may join; it may be changed while the engine runs.
    """

    def __init__(
        self,
        model: ModelFolder,
        settings: EngineSettings | None = None,
        window: BatchingWindow | None = None,
    ) -> None:
        settings = settings or EngineSettings()
        sizes = model.architecture
        shape = KvShape(sizes.layers, sizes.kv_heads, sizes.head_dim)
        self.base_model = model.base_model
        self.vocabulary = sizes.vocabulary
        self.context_length = min(sizes.context, settings.kv_bytes // shape.bytes_per_token)
        self._codec = TextCodec.open(model.onnx)
        self._ends = frozenset(model.eos_tokens)
        self._constraints: Constraints | None = None
        self._pool = KvPool(shape, settings.slots, self.context_length, settings.kv_bytes)
        self._shelf = AdapterShelf(settings.adapter_bytes, model.lora_inputs, read_adapter_inputs)
        self._window = window or BatchingWindow()
        self._naming = threading.Lock()
        self._loads: dict[str, str] = {}
        self._number = 0
        self._line: JobLine[RunningAnswer] = JobLine(settings.slots, settings.waiting)
        self._batcher = Batcher(
            GraphSession(
                model.batch_graph, self._pool.arrays, sizes.vocabulary, sizes.hidden, settings.threads
            ),
            self._pool,
            self._line,
            self._shelf,
            Speculation(None if settings.drafts == "never" else DraftBounds(), settings.drafts == "always"),
            self._window,
            self._ended,
        )
        sys.setswitchinterval(SWITCH_S)
        use_huge_pages()
        self._thread = threading.Thread(target=self._compute, name="engine", daemon=True)
        self._thread.start()

    @property
    def takes_tools(self) -> bool:
        """See TextEncoder."""
        return self._codec.takes_tools

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """See TextEncoder."""
        return self._codec.encode_chat(messages, tools)

    def encode(self, text: str) -> list[int]:
        """See TextEncoder."""
        return self._codec.encode(text)

    def token_bytes(self, token: int) -> bytes:
        """See TextEncoder."""
        return self._codec.token_bytes(token)

    def load_adapter(self, name: str, path: Path) -> None:
        """See AdapterHost."""
        with self._naming:
            if name in self._loads:
                raise ModelError(f"An adapter {name} is loaded already", "", "unload it first")
            # Slots keep what was computed under an adapter: another file under the same name is another one.
            self._number += 1
            load = f"{name} (load {self._number})"
            self._shelf.load(load, path)
            self._loads[name] = load

    def unload_adapter(self, name: str) -> None:
        """See AdapterHost."""
        with self._naming:
            if name in self._loads:
                self._shelf.unload(self._loads[name])
                del self._loads[name]

    def prepare_grammar(self, grammar: Grammar) -> None:
        """See Generator."""
        self._grammars().compile(grammar)

    def start(self, jobs: Sequence[Job]) -> Sequence[Generation]:
        """See Generator."""
        return self._enter(jobs)

    async def embed(self, prompts: Sequence[Sequence[int]]) -> FloatArray:
        """See Generator."""
        jobs = [Job(tuple(prompt), Sampling(max_tokens=1)) for prompt in prompts]
        generations = self._enter(jobs, embedding=True)
        try:
            return np.stack([await _embedding(generation) for generation in generations])
        finally:
            for generation in generations:
                generation.cancel()

    def figures(self) -> Mapping[str, float]:
        """See Generator."""
        internal, external = self._pool.fragmentation()
        return {
            "slots": self._line.slots,
            "running": self._line.running,
            "waiting": len(self._line),
            "batching_window_ms": self._window.window_ms,
            "kv_limit_bytes": self._pool.limit_bytes,
            "kv_promised_bytes": self._pool.promised_bytes,
            "kv_held_bytes": self._pool.held_bytes,
            "kv_peak_bytes": self._pool.peak_bytes,
            "kv_internal_fragmentation": internal,
            "kv_external_fragmentation": external,
            **{f"{name}_total": float(value) for name, value in vars(self._batcher.counts).items()},
        }

    def close(self) -> None:
        """See Generator."""
        self._line.close()
        self._thread.join()

    def _enter(self, jobs: Sequence[Job], embedding: bool = False) -> list[EngineGeneration]:
        acquired: list[str] = []
        answers: list[RunningAnswer] = []
        try:
            for job in jobs:
                self._check_fits(job)
                if job.adapter is not None:
                    load = self._loads.get(job.adapter, job.adapter)
                    self._shelf.acquire(load)
                    acquired.append(load)
                    job = replace(job, adapter=load)  # noqa: PLW2901
                answers.append(self._answer(job, embedding))
            self._line.enter(answers)
        except BaseException:
            for name in acquired:
                self._shelf.release(name)
            raise
        return [answer.generation for answer in answers]

    def _answer(self, job: Job, embedding: bool) -> RunningAnswer:
        constraint = self._grammars().compile(job.grammar) if job.grammar is not None else None
        sampler = TokenSampler(job.sampling, job.prompt, self.vocabulary, constraint)
        generation = EngineGeneration(self._line.wake)
        return RunningAnswer(job, sampler, self._codec.tokens, self._ends, generation, constraint, embedding)

    def _grammars(self) -> Constraints:
        # Its table of the vocabulary takes a second to build and most devices never need it.
        if self._constraints is None:
            self._constraints = Constraints(self._codec, self._ends, self.vocabulary)
        return self._constraints

    def _check_fits(self, job: Job) -> None:
        if not job.prompt:
            raise RequestInvalid("The prompt is empty", "", "send at least one message", field="messages")
        if len(job.prompt) + max(1, job.sampling.max_tokens) > self.context_length:
            raise ContextTooLong(
                "The messages are too long for this model",
                f"{len(job.prompt)} tokens and {job.sampling.max_tokens} for the answer; "
                f"{self.context_length} fit",
                "shorten the messages or lower max_tokens",
                field="messages",
            )

    def _ended(self, answer: RunningAnswer) -> None:
        if answer.job.adapter is not None:
            self._shelf.release(answer.job.adapter)

    def _compute(self) -> None:
        while not self._line.closed:
            if self._batcher.idle:
                self._line.wait()
            self._batcher.turn()
        self._batcher.end_all()


async def _embedding(generation: EngineGeneration) -> FloatArray:
    async for _ in generation:
        pass
    if generation.features is None:
        raise asyncio.CancelledError
    norm = np.linalg.norm(generation.features)
    return (generation.features / np.float32(max(float(norm), 1e-12))).astype(np.float32)
