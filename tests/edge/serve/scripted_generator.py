"""A generator that follows a script, as an engine that answers on the event loop."""

from __future__ import annotations

import asyncio
import codecs
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc.errors import Busy
from fedaigc_edge.engine.generator import EngineTimes, Job, Piece
from fedaigc_edge.engine.sampling import Grammar, TokenChoice

FIRST_TOKEN = 1000
"""The token of the script's first piece; the next pieces' tokens follow."""
END = 1
"""The token that ends an answer; it stands for no text."""


@dataclass
class ScriptedGenerator:
    """Says `pieces`, one token each; a prompt has one token a word. `pause_s` before each piece.

    `each` gives the generations of one start their own scripts; `hidden` their features.
    """

    pieces: Sequence[str | bytes] = ("Hello", ", ", "world", "!")
    pause_s: float = 0.0
    failure: Exception | None = None
    base_model: str = "ab" * 32
    context_length: int = 2048
    vocabulary: int = 50_000
    slots: int = 2
    waiting: int = 8
    takes_tools: bool = False
    cached: int = 0
    each: Sequence[Sequence[str | bytes]] = ()
    hidden: Sequence[FloatArray] = ()
    running: int = 0
    most_running: int = 0
    present: int = 0
    made: int = 0
    seen: list[Job] = field(default_factory=list)
    templated: list[tuple[Any, Any]] = field(default_factory=list)
    prepared: list[Grammar] = field(default_factory=list)
    closed: bool = False

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        self.templated.append((messages, tools))
        return self.encode(" ".join(message["content"] for message in messages))

    def encode(self, text: str) -> list[int]:
        return list(range(len(text.split()) + 1))

    def token_bytes(self, token: int) -> bytes:
        everything = [piece for script in self.each for piece in script] or list(self.pieces)
        place = token - FIRST_TOKEN
        piece = everything[place] if 0 <= place < len(everything) else b""
        return piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace")

    def prepare_grammar(self, grammar: Grammar) -> None:
        self.prepared.append(grammar)

    def start(self, jobs: Sequence[Job]) -> Sequence[ScriptedGeneration]:
        if self.present + len(jobs) > self.slots + self.waiting:
            raise Busy("Full", "", "wait", retry_after_s=3)
        self.present += len(jobs)
        self.seen += jobs
        self.gate = getattr(self, "gate", None) or asyncio.Semaphore(self.slots)
        return [ScriptedGeneration(self, job, number) for number, job in enumerate(jobs)]

    async def embed(self, prompts: Sequence[Sequence[int]]) -> FloatArray:
        rows = np.array([[len(prompt), 1.0, -2.0] for prompt in prompts], dtype=np.float32)
        vectors: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return vectors

    def figures(self) -> Mapping[str, float]:
        return {"slots": float(self.slots)}

    def load_adapter(self, name: str, path: Path) -> None:
        raise NotImplementedError

    def unload_adapter(self, name: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


class ScriptedGeneration:
    """One answer of the script."""

    def __init__(self, host: ScriptedGenerator, job: Job, number: int) -> None:
        self._host = host
        self._job = job
        self._cancelled = False
        self._script = host.each[number] if host.each else host.pieces
        self._first_token = FIRST_TOKEN + sum(map(len, host.each[:number]))
        self.cached_tokens = host.cached
        self.times = EngineTimes()
        self.features: FloatArray | None = host.hidden[number] if host.hidden and job.features else None

    def cancel(self) -> None:
        self._cancelled = True

    async def __aiter__(self) -> AsyncIterator[Piece]:
        host = self._host
        asked = time.perf_counter_ns()
        try:
            async with host.gate:
                host.running += 1
                host.most_running = max(host.running, host.most_running)
                begun = time.perf_counter_ns()
                try:
                    async for piece in self._pieces():
                        now = time.perf_counter_ns()
                        self.times = EngineTimes(begun - asked, (now - begun) // 10, (now - begun) * 9 // 10)
                        yield piece
                finally:
                    host.running -= 1
        finally:
            host.present -= 1

    async def _pieces(self) -> AsyncIterator[Piece]:
        host, decoder = self._host, codecs.getincrementaldecoder("utf-8")("replace")
        for number, raw in enumerate(self._script, 1):
            if host.pause_s:
                await asyncio.sleep(host.pause_s)
            if self._cancelled:
                yield Piece("", 0, "cancelled")
                return
            host.made += 1
            text = raw if isinstance(raw, str) else decoder.decode(raw)
            choices = self._choices(self._first_token + number - 1, number)
            if number == self._job.sampling.max_tokens:
                yield Piece(text, 1, "length", choices)
                return
            yield Piece(text, 1, None, choices)
        if host.failure is not None:
            raise host.failure
        yield Piece("", 0, "stop")

    def _choices(self, token: int, number: int) -> tuple[TokenChoice, ...]:
        wanted = self._job.sampling.logprobs
        if wanted is None:
            return ()
        top = tuple((token + place, -number - place / 4) for place in range(wanted))
        return (TokenChoice(token, -float(number), top),)
