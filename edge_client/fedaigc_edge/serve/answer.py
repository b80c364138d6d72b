"""Generate under one pinned policy in a worker thread, handing text to the caller while it comes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from dataclasses import InitVar, dataclass, field
from typing import Protocol

from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.serve.generation_slots import CallerGone, GenerationSlots
from fedaigc_edge.serve.generator import Generator, Piece, Sampling
from fedaigc_edge.serve.reservation import Reservation
from fedaigc_edge.serve.served_model import ServedModel
from fedaigc_edge.serve.stop_text import StopText
from fedaigc_edge.step import Maker, made_only_by


class PolicyInForce(Protocol):
    """One policy version, and the adapter that it is loaded under (None for the base model)."""

    @property
    def version(self) -> PolicyVersion:
        """Its number; 0 is the base model."""
        ...

    @property
    def adapter_name(self) -> str | None:
        """What the generator knows it by."""
        ...


class Policies(Protocol):
    """The policy that is in force, and a lease on it for the length of one generation."""

    @property
    def current(self) -> PolicyInForce:
        """The version that a request would meet now."""
        ...

    def lease(self) -> AbstractContextManager[PolicyInForce]:
        """Pin the current version: it stays loaded until the block ends. May be entered in any thread."""
        ...


@dataclass(frozen=True)
class AnswerHead:
    """What is known of an answer before its first word."""

    reservation: Reservation
    policy: PolicyVersion
    model: str
    """The versioned name of the model."""


class Caller(Protocol):
    """Whoever waits for the answer."""

    streams: bool
    """Whether text is handed over while it comes; otherwise only the whole answer is."""
    gone: asyncio.Event
    """Set when the caller has left."""

    async def deliver(self, head: AnswerHead, text: str) -> None:
        """Hand over the next piece of a streamed answer; never empty."""
        ...


class _Generation(Maker):
    """Held by this module alone."""


_GENERATION = _Generation()


@dataclass(frozen=True)
class Answer:
    """What the caller got, or gets next. Made by `generate` only; `repr` never shows the text."""

    head: AnswerHead
    text: str = field(repr=False)
    """Of a caller who left a stream: what was handed over until then."""
    finish: str
    """stop, length, cancelled or failed."""
    tokens: int
    """Generated tokens."""
    failure: Exception | None
    """What ended a stream after some of it was handed over: that part is sealed, then this is raised."""
    maker: InitVar[_Generation]

    def __post_init__(self, maker: _Generation) -> None:
        made_only_by(maker, _GENERATION, "generate")


async def generate(
    reservation: Reservation,
    caller: Caller,
    generator: Generator,
    policies: Policies,
    slots: GenerationSlots,
    model: ServedModel,
) -> Answer:
    """Generate until the model, a stop sequence, the limit or the caller ends it.

    Raises Busy, UnknownModel when the policy changed under a request that pins one, CallerGone when the
    caller left before anything was handed over, and what the generator raises before that.
    """
    run = _Run(reservation, generator, policies, model)
    work = await slots.start(run.work, caller.gone)
    leaving = asyncio.ensure_future(_cancel_when_gone(caller.gone, run.cancelled))
    texts: list[str] = []
    failure: Exception | None = None
    try:
        async for text in run.texts():
            if caller.streams and not caller.gone.is_set():
                await caller.deliver(run.head, text)
                texts.append(text)
            elif not caller.streams:
                texts.append(text)
        await asyncio.shield(work)
    except Exception as error:
        if not (caller.streams and texts):
            raise
        failure = error
    finally:
        run.cancelled.set()
        leaving.cancel()
    if caller.gone.is_set() and not (caller.streams and texts):
        raise CallerGone("The caller left before anything was handed over", "", "ask again")
    finish = "failed" if failure else "cancelled" if caller.gone.is_set() else run.finish
    return Answer(run.head, "".join(texts), finish, run.tokens, failure, _GENERATION)


async def _cancel_when_gone(gone: asyncio.Event, cancelled: threading.Event) -> None:
    await gone.wait()
    cancelled.set()


class _Run:
    """The part of a generation that runs in its thread, and the way its text takes to the event loop."""

    head: AnswerHead

    def __init__(
        self, reservation: Reservation, generator: Generator, policies: Policies, model: ServedModel
    ) -> None:
        self.cancelled = threading.Event()
        self.finish = "cancelled"
        self.tokens = 0
        self._reservation = reservation
        self._generator = generator
        self._policies = policies
        self._model = model
        self._loop = asyncio.get_running_loop()
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()

    def work(self) -> None:
        """Generate; runs in a worker thread. Whatever happens, the reader is told that no more text comes."""
        try:
            with self._policies.lease() as policy:
                self._generate(policy)
        finally:
            self._tell(None)

    async def texts(self) -> AsyncIterator[str]:
        """The answer's text as it comes, never empty."""
        while (text := await self._texts.get()) is not None:
            yield text

    def _generate(self, policy: PolicyInForce) -> None:
        request = self._reservation.permit.request
        self._model.check(request.model, policy.version)
        self.head = AnswerHead(self._reservation, policy.version, self._model.versioned(policy.version))
        sampling = Sampling(
            max_tokens=self._reservation.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            seed=request.seed,
        )
        self._reservation.meter.used = len(self._reservation.prompt)
        stops = StopText(request.stop)
        with _closing(
            self._generator.generate(self._reservation.prompt, sampling, policy.adapter_name, self.cancelled)
        ) as pieces:
            self._take(pieces, stops)
        self._tell(stops.end())

    def _take(self, pieces: Iterator[Piece], stops: StopText) -> None:
        for piece in pieces:
            if self.tokens + piece.tokens > self._reservation.max_tokens:
                self.finish = "length"
                break
            self.tokens += piece.tokens
            self._reservation.meter.used += piece.tokens
            self._tell(stops.feed(_whole(piece.text)))
            self.finish = piece.finish or self.finish
            if stops.stopped:
                self.finish = "stop"
                break
        # Ends a generator that was cut short here; harmless to one that ended itself.
        self.cancelled.set()

    def _tell(self, text: str | None) -> None:
        if text != "":
            # The loop is closed only when the process ends: then nobody waits for the text.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._texts.put_nowait, text)


@contextlib.contextmanager
def _closing(pieces: Iterator[Piece]) -> Iterator[Iterator[Piece]]:
    try:
        yield pieces
    finally:
        # A generator function frees its state when closed; another iterator has nothing to close.
        close = getattr(pieces, "close", None)
        if close is not None:
            close()


def _whole(text: str) -> str:
    """`text` as UTF-8 can carry it, so that what is fingerprinted is what the caller reads."""
    return text.encode("utf-8", "replace").decode("utf-8")
