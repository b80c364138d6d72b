"""One answer inside the engine, and the end of it that its caller holds."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc_edge.engine.detokeniser import Detokeniser, TokenBytes
from fedaigc_edge.engine.draft_length import DraftLength
from fedaigc_edge.engine.generator import EngineTimes, Job, Piece
from fedaigc_edge.engine.prompt_lookup import PromptLookup
from fedaigc_edge.engine.sampling import TokenChoice

Outcome = Piece | Exception


class Sampler(Protocol):
    """Chooses one answer's tokens, and advances by each."""

    def choose(self, logits: FloatArray) -> TokenChoice:
        """The next token from its logits, (vocabulary,), which may be changed."""
        ...


class Grammar(Protocol):
    """Where an answer stands in its grammar."""

    @property
    def finished(self) -> bool:
        """Whether no more text may follow."""
        ...


class EngineGeneration:
    """The caller's end: see Generation. Belongs to the event loop in which it was made."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.cancelled = False
        """Read by the engine's thread before each step."""
        self._cached_tokens = 0
        self._times = EngineTimes()
        self._features: FloatArray | None = None
        self._outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        self._wake = wake

    @property
    def cached_tokens(self) -> int:
        """See Generation."""
        return self._cached_tokens

    @property
    def times(self) -> EngineTimes:
        """See Generation."""
        return self._times

    @property
    def features(self) -> FloatArray | None:
        """See Generation."""
        return self._features

    def cancel(self) -> None:
        """See Generation."""
        self.cancelled = True
        self._wake()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """See Generation."""
        while True:
            outcome = await self._outcomes.get()
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome
            if outcome.finish is not None:
                return

    def receive(self, outcome: Outcome, about: RunningAnswer) -> None:
        """Take what the engine hands over; runs on the event loop."""
        self._cached_tokens, self._times, self._features = about.reused, about.times, about.features
        self._outcomes.put_nowait(outcome)


class RunningAnswer:
    """What the engine knows of one answer. Used from the engine's thread alone, once it is in line."""

    def __init__(
        self,
        job: Job,
        sampler: Sampler,
        text: TokenBytes,
        ends: frozenset[int],
        generation: EngineGeneration,
        grammar: Grammar | None = None,
        embedding: bool = False,
    ) -> None:
        self.job = job
        self.embedding = embedding
        """Whether the prompt's hidden states are all that is wanted."""
        self.sampler = sampler
        self.generation = generation
        self.slot = -1
        self.place = 0
        """Prompt tokens whose keys and values are computed."""
        self.last = -1
        """The newest token; it is in no slot yet."""
        self.made = 0
        self.reused = 0
        self.lookup: PromptLookup | None = None
        self.draft_length: DraftLength | None = None
        self.written: list[int] = []
        """The answer's tokens so far."""
        self.ended = False
        self.held_back: Piece | None = None
        """The last piece, while the hidden state of the last token is computed."""
        self._grammar = grammar
        self._ends = ends
        self._detokeniser = Detokeniser(text)
        self._entered = time.perf_counter_ns()
        self._admitted = self._first = self._last = 0
        self._sum: FloatArray | None = None
        self._counted = 0

    @property
    def room(self) -> int:
        """Tokens that its slot must be able to hold."""
        return len(self.job.prompt) + max(1, self.job.sampling.max_tokens)

    @property
    def may_reuse(self) -> bool:
        """Whether prompt tokens that are in a slot already need no computing."""
        return not self.embedding

    @property
    def prefilling(self) -> bool:
        """Whether prompt tokens are still to be computed."""
        return self.place < len(self.job.prompt)

    @property
    def tokens_left(self) -> int:
        """How many tokens it may still make."""
        return self.job.sampling.max_tokens - self.made

    @property
    def seconds(self) -> float:
        """How long it has had its slot."""
        return (time.perf_counter_ns() - self._admitted) / 1e9

    @property
    def waited_s(self) -> float:
        """How long it has been, or was, in line."""
        return ((self._admitted or time.perf_counter_ns()) - self._entered) / 1e9

    @property
    def times(self) -> EngineTimes:
        """Nanoseconds so far; a part that has not begun is 0."""
        admitted = self._admitted or self._entered
        first = self._first or admitted
        return EngineTimes(admitted - self._entered, first - admitted, max(self._last - first, 0))

    @property
    def features(self) -> FloatArray | None:
        """Mean hidden state of the answer's tokens so far, (hidden,)."""
        return (self._sum / np.float32(self._counted)).astype(np.float32) if self._sum is not None else None

    def admit(self, slot: int, reused: int) -> None:
        """It has a slot, in which the first `reused` tokens of its prompt lie already."""
        self._admitted = time.perf_counter_ns()
        self.slot, self.place, self.reused = slot, reused, reused

    def take(self, choices: Iterable[TokenChoice]) -> Piece:
        """The piece that newly chosen tokens make; tokens after the end are dropped."""
        text, kept, finish = "", list[TokenChoice](), None
        for choice in choices:
            self.made += 1
            self.last = choice.token
            self.written.append(choice.token)
            kept.append(choice)
            if choice.token in self._ends:
                finish = "stop"
                break
            text += self._detokeniser.feed(choice.token)
            if self.lookup is not None:
                self.lookup.append(choice.token)
            if self._grammar is not None and self._grammar.finished:
                finish = "stop"
                break
            if self.made >= self.job.sampling.max_tokens:
                finish = "length"
                break
        now = time.perf_counter_ns()
        self._first, self._last = self._first or now, now
        if finish is not None:
            text += self._detokeniser.end()
        reported = tuple(kept) if self.job.sampling.logprobs is not None else ()
        return Piece(text, len(kept), finish, reported)

    def ends_with(self, choices: Sequence[TokenChoice]) -> bool:
        """Whether nothing can follow these new tokens."""
        complete = self._grammar is not None and self._grammar.finished
        return complete or len(choices) >= self.tokens_left or choices[-1].token in self._ends

    def cut(self, finish: str = "cancelled") -> Piece:
        """The last piece of an answer that is ended from outside."""
        return Piece(self._detokeniser.end(), 0, finish)

    def add_hidden(self, states: FloatArray) -> None:
        """Count hidden states of answer tokens, (tokens, hidden), into the features."""
        total = states.sum(axis=0, dtype=np.float32)
        self._sum = total if self._sum is None else self._sum + total
        self._counted += len(states)


class HandOver:
    """Collects what a step made, and brings it to the callers' event loops in one hop each."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.AbstractEventLoop, list[tuple[RunningAnswer, Outcome]]] = {}

    def add(self, answer: RunningAnswer, outcome: Outcome) -> None:
        """Bring this to the answer's caller at the next `send`."""
        self._waiting.setdefault(answer.generation.loop, []).append((answer, outcome))

    def send(self) -> None:
        """Bring everything over."""
        waiting, self._waiting = self._waiting, {}
        for loop, items in waiting.items():
            # A closed loop has no callers any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_receive_all, items)


def _receive_all(items: list[tuple[RunningAnswer, Outcome]]) -> None:
    for answer, outcome in items:
        answer.generation.receive(outcome, answer)
