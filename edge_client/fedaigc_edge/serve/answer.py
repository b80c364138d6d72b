"""Generate under one pinned policy, handing text to the caller while it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Protocol

from fedaigc.errors import RequestInvalid
from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.engine.generator import EngineTimes, Generation, Generator, Job
from fedaigc_edge.serve.best_of import Candidate, Ranking, rank
from fedaigc_edge.serve.choice_text import ChoiceText, Delta, TokenLogprob
from fedaigc_edge.serve.merged_pieces import Step, steps
from fedaigc_edge.serve.policies import Policies, PolicyInForce
from fedaigc_edge.serve.request import CallerGone
from fedaigc_edge.serve.reservation import Reservation
from fedaigc_edge.serve.served_model import ServedModel
from fedaigc_edge.serve.stage_clock import StageClock
from fedaigc_edge.step import Maker, made_only_by

MAX_SEED = 2**63 - 1
STALLED_S = 60.0
"""A streaming caller that takes nothing for so long is given up: until then it holds budget and a policy."""


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

    async def deliver(self, head: AnswerHead, deltas: Sequence[Delta]) -> None:
        """Hand over what came at one moment of a streamed answer; none of it is empty."""
        ...


class _Generation(Maker):
    """Held by this module alone."""


_GENERATION = _Generation()


@dataclass(frozen=True)
class Choice:
    """One output of an answer; `repr` never shows its text."""

    index: int
    text: str = field(repr=False)
    """Of a caller who left a stream: what was handed over until then."""
    finish: str
    """stop, length, cancelled or failed."""
    tokens: int
    """Tokens generated for it."""
    logprobs: tuple[TokenLogprob, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Answer:
    """What the caller got, or gets next. Made by `generate` only."""

    head: AnswerHead
    choices: tuple[Choice, ...]
    """At least one, in the order of prompts and then of choices; each is an output of its own."""
    completion_tokens: int
    """Generated tokens, those of candidates that were not chosen too."""
    cached_tokens: int
    """Prompt tokens that did not have to be computed."""
    ranking: Ranking | None
    """How the best of several was chosen."""
    failure: Exception | None
    """What ended a stream after some of it was handed over: that part is sealed, then this is raised."""
    maker: InitVar[_Generation]

    def __post_init__(self, maker: _Generation) -> None:
        made_only_by(maker, _GENERATION, "generate")

    @property
    def finish(self) -> str:
        """How the whole of it ended: as its first choice did, unless another was cut."""
        finishes = [choice.finish for choice in self.choices]
        return next((finish for finish in finishes if finish in ("failed", "cancelled")), finishes[0])


async def generate(
    reservation: Reservation,
    caller: Caller,
    generator: Generator,
    policies: Policies,
    model: ServedModel,
    clock: StageClock | None = None,
) -> Answer:
    """Generate every choice until the model, a stop sequence, the limit or the caller ends it.

    The policy is leased for the whole of it. Raises Busy, UnknownModel for a version that is not resident,
    CallerGone when the caller left before anything was handed over, and what the generator raises before
    that.
    """
    request = reservation.permit.request
    pinned = model.pinned(request.model, policies.resident_versions)
    with policies.lease(pinned) as policy:
        head = AnswerHead(reservation, policy.version, model.versioned(policy.version))
        run = _Run(head, caller, generator, policy, clock or StageClock())
        await run.to_end()
    return run.answer()


class _Run:
    """The generations of one request."""

    def __init__(
        self,
        head: AnswerHead,
        caller: Caller,
        generator: Generator,
        policy: PolicyInForce,
        clock: StageClock,
    ) -> None:
        request = head.reservation.permit.request
        self._head = head
        self._caller = caller
        self._policy = policy
        self._clock = clock
        self._best_of = request.best_of > 1
        # Of several candidates nothing can be shown before all are there.
        self._streams = caller.streams and not self._best_of
        count = len(head.reservation.prompts) * request.choices
        limit = head.reservation.max_tokens
        self._texts = [ChoiceText(i, request.stop, limit, generator.token_bytes) for i in range(count)]
        self._kept: list[list[Delta]] = [[] for _ in range(count)]
        self._missed: set[int] = set()
        """Choices of which something came when the caller had left."""
        self._generator = generator
        self._generations: Sequence[Generation] = ()
        self._failure: Exception | None = None
        self._ranking: Ranking | None = None
        self._chosen = 0
        self._patience: asyncio.Timeout | None = None

    async def to_end(self) -> None:
        """Run every generation to its last piece; raises what `generate` raises."""
        if self._caller.gone.is_set():
            raise _gone()
        meter = self._head.reservation.meter
        with self._clock.generation(self._times):
            tools = self._head.reservation.permit.request.tools is not None
            self._generations = await _started(self._generator, self._jobs(), tools)
            meter.used = self._head.reservation.prompt_tokens
            leaving = asyncio.ensure_future(self._cancel_when_gone())
            try:
                await self._take_all()
                await self._end()
            finally:
                leaving.cancel()

    def answer(self) -> Answer:
        """What came of it, once it has ended."""
        numbers = [self._chosen] if self._best_of else range(len(self._texts))
        cut = self._failure is not None or self._caller.gone.is_set()
        choices = [self._choice(number) for number in numbers if self._kept[number] or not cut]
        if not choices:
            raise _gone()
        return Answer(
            self._head,
            tuple(choices),
            sum(text.tokens for text in self._texts),
            self._cached_tokens(),
            self._ranking,
            self._failure,
            _GENERATION,
        )

    async def _take_all(self) -> None:
        try:
            async for step in steps(self._generations):
                await self._take(step)
        except Exception as error:
            if not (self._streams and any(self._kept)):
                raise
            self._failure = error
        finally:
            self._cancel()

    async def _take(self, step: Step) -> None:
        made = 0
        deltas: list[Delta] = []
        for number, piece in step:
            text = self._texts[number]
            before = text.tokens
            delta = text.feed(piece)
            made += text.tokens - before
            if delta.text or delta.logprobs:
                deltas.append(delta)
            if text.ended and piece.finish is None:
                self._generations[number].cancel()
        self._head.reservation.meter.used += made
        if made:
            self._clock.tokens(made)
        if not self._streams:
            self._keep(deltas)
        elif self._caller.gone.is_set():
            self._missed.update(delta.index for delta in deltas)
        elif deltas:
            await self._hand_over(deltas)
            self._keep(deltas)

    async def _end(self) -> None:
        gone = self._caller.gone.is_set()
        if gone and not (self._streams and any(self._kept)):
            raise _gone()
        if not self._best_of:
            return
        self._ranking = rank([self._candidate(number) for number in range(len(self._texts))], self._policy)
        self._chosen = self._ranking.chosen
        chosen = [replace(delta, index=0) for delta in self._kept[self._chosen]]
        if self._caller.streams and chosen:
            await self._hand_over(chosen)

    async def _hand_over(self, deltas: Sequence[Delta]) -> None:
        """A caller that takes nothing for too long, or is given up while it does, counts as gone."""
        try:
            async with asyncio.timeout(STALLED_S) as self._patience:
                await self._caller.deliver(self._head, deltas)
        except TimeoutError:
            self._caller.gone.set()
        finally:
            self._patience = None

    def _keep(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            self._kept[delta.index].append(delta)

    def _choice(self, number: int) -> Choice:
        kept, text = self._kept[number], self._texts[number]
        cut = self._caller.gone.is_set() and (number in self._missed or not text.ended)
        finish = "failed" if self._failure else "cancelled" if cut else text.finish
        index = 0 if self._best_of else number
        logprobs = tuple(logprob for delta in kept for logprob in delta.logprobs)
        return Choice(index, "".join(delta.text for delta in kept), finish, text.tokens, logprobs)

    def _candidate(self, number: int) -> Candidate:
        text = self._texts[number]
        return Candidate(self._generations[number].features, text.logprob_sum / max(1, text.tokens))

    def _jobs(self) -> list[Job]:
        request = self._head.reservation.permit.request
        sampling = replace(request.sampling, max_tokens=self._head.reservation.max_tokens)
        if self._best_of and sampling.logprobs is None:
            sampling = replace(sampling, logprobs=0)
        jobs = []
        for prompt in self._head.reservation.prompts:
            for number in range(request.choices):
                seed = None if sampling.seed is None else _folded(sampling.seed + number)
                jobs.append(
                    Job(
                        prompt,
                        replace(sampling, seed=seed),
                        self._policy.adapter_name,
                        request.grammar,
                        self._best_of,
                    )
                )
        return jobs

    def _cached_tokens(self) -> int:
        # The choices of one prompt share it, and the prompt counts once: by the one that computed most of it.
        each = self._head.reservation.permit.request.choices
        cached = [generation.cached_tokens for generation in self._generations]
        return sum(min(cached[start : start + each]) for start in range(0, len(cached), each))

    def _times(self) -> EngineTimes:
        # Choices run side by side: the one that took longest is what the caller waited for.
        times = [generation.times for generation in self._generations]
        return max(times, key=lambda t: t.queue_ns + t.prefill_ns + t.decode_ns, default=EngineTimes())

    def _cancel(self) -> None:
        for generation in self._generations:
            generation.cancel()

    async def _cancel_when_gone(self) -> None:
        await self._caller.gone.wait()
        self._cancel()
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())


async def _started(generator: Generator, jobs: list[Job], tools: bool) -> Sequence[Generation]:
    grammar = jobs[0].grammar
    try:
        if grammar is not None:
            await asyncio.to_thread(generator.prepare_grammar, grammar)
        return generator.start(jobs)
    except RequestInvalid as error:
        # The engine knows grammars, not which field of a request they come from.
        if error.field == "response_format" and tools:
            raise RequestInvalid(error.what, error.why, error.do_next, field="tools") from None
        raise


def _folded(seed: int) -> int:
    return seed if seed <= MAX_SEED else seed - 2 * MAX_SEED - 2


def _gone() -> CallerGone:
    return CallerGone("The caller left before anything was handed over", "", "ask again")
