"""The engine's protocol over the blocking generator, one thread for each answer that runs.

It stands in until answers are batched, and does what the blocking generator can: whatever else a request asks
for is refused by name.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fedaigc.arrays import FloatArray
from fedaigc.errors import Busy, RequestInvalid, Unavailable
from fedaigc_edge.engine.generator import EngineTimes, Job, Piece
from fedaigc_edge.engine.sampling import Grammar, Sampling
from fedaigc_edge.serve import generator as blocking
from fedaigc_edge.serve.request import ChatMessage

FIRST_GUESS_S = 5.0
"""How long an answer is taken to last before one was measured."""
_UNABLE = ("min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "logprobs")
_NEUTRAL = Sampling(max_tokens=0)


class ThreadedGenerator:
    """See engine.generator.Generator, which this is.

    Args:
        model: the blocking generator.
        slots, waiting: answers that run, and that may wait, at one time.
    """

    def __init__(self, model: blocking.GenaiGenerator, slots: int, waiting: int) -> None:
        self.base_model = model.base_model
        self.context_length = model.context_length
        self.vocabulary: int = model._vocabulary
        self._model = model
        self._slots = slots
        self._most = slots + waiting
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="generation")
        self._lock = threading.Lock()
        self._present = 0
        self._mean_s = FIRST_GUESS_S
        self._running: set[_Running] = set()

    def prepare_grammar(self, grammar: Grammar) -> None:
        """See Generator; `start` refuses every grammar."""

    def start(self, jobs: Sequence[Job]) -> Sequence[_Running]:
        """See Generator."""
        for job in jobs:
            _check(job)
        with self._lock:
            if self._present + len(jobs) > self._most:
                raise Busy(
                    "This device is generating as much as it can",
                    f"{self._present} answers run or wait",
                    "try again after the time in Retry-After",
                    retry_after_s=max(1, math.ceil(self._mean_s * self._present / self._slots)),
                )
            self._present += len(jobs)
            started = [_Running(self, job) for job in jobs]
            self._running |= set(started)
        try:
            for each in started:
                self._threads.submit(each.work)
        except RuntimeError:
            raise Unavailable("This device is stopping", "", "try again when it is back") from None
        return started

    async def embed(self, prompts: Sequence[Sequence[int]]) -> FloatArray:
        """See Generator."""
        raise RequestInvalid("This device makes no vectors yet", "", "", field="model")

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """See TextEncoder."""
        return self._model.encode_chat([ChatMessage(m["role"], m["content"]) for m in messages])

    def encode(self, text: str) -> list[int]:
        """See TextEncoder."""
        return self._model.encode(text)

    def token_bytes(self, token: int) -> bytes:
        """See TextEncoder."""
        return self._model._tokens.table.get(token, b"")

    @property
    def takes_tools(self) -> bool:
        """See TextEncoder."""
        return False

    def load_adapter(self, name: str, path: Path) -> None:
        """See AdapterHost."""
        self._model.load_adapter(name, path)

    def unload_adapter(self, name: str) -> None:
        """See AdapterHost."""
        self._model.unload_adapter(name)

    def figures(self) -> Mapping[str, float]:
        """See Generator."""
        return {"slots": self._slots, "present": self._present}

    def close(self) -> None:
        """See Generator."""
        with self._lock:
            running = list(self._running)
        for each in running:
            each.cancel()
        self._threads.shutdown(wait=True)

    def ended(self, running: _Running, seconds: float) -> None:
        """Told by an answer that its thread is done with it."""
        with self._lock:
            self._present -= 1
            self._running.discard(running)
            self._mean_s += 0.2 * (seconds - self._mean_s)


class _Running:
    """See engine.generator.Generation, which this is."""

    cached_tokens = 0
    features: FloatArray | None = None

    def __init__(self, host: ThreadedGenerator, job: Job) -> None:
        self.times = EngineTimes()
        self._host = host
        self._job = job
        self._cancelled = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[Piece | Exception] = asyncio.Queue()
        self._waiting_since = time.perf_counter_ns()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """See Generation."""
        while True:
            piece = await self._pieces.get()
            if isinstance(piece, Exception):
                raise piece
            yield piece
            if piece.finish is not None:
                return

    def cancel(self) -> None:
        """See Generation."""
        self._cancelled.set()

    def work(self) -> None:
        """Generate; runs in a thread of the host's."""
        started = first = time.perf_counter_ns()
        made = False
        try:
            sampling, job = self._job.sampling, self._job
            old = blocking.Sampling(
                sampling.max_tokens, sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed
            )
            for piece in self._host._model.generate(job.prompt, old, job.adapter, self._cancelled):
                now = time.perf_counter_ns()
                first, made = (first, True) if made else (now, True)
                self.times = EngineTimes(started - self._waiting_since, first - started, now - first)
                self._tell(Piece(piece.text, piece.tokens, piece.finish))
        except Exception as error:
            self._tell(error)
        finally:
            self._host.ended(self, (time.perf_counter_ns() - started) / 1e9)

    def _tell(self, piece: Piece | Exception) -> None:
        # The loop is closed only when the process ends: then nobody waits for the text.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)


def _check(job: Job) -> None:
    for name in _UNABLE:
        if getattr(job.sampling, name) != getattr(_NEUTRAL, name):
            raise RequestInvalid(f"The field {name} cannot be honoured yet", "", "leave it out", field=name)
    if job.grammar is not None:
        raise RequestInvalid("An answer's form cannot be enforced yet", "", "leave response_format out")
