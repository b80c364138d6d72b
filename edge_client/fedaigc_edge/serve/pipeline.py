"""The one way from a request to a sealed answer; every route that generates goes through `Pipeline.serve`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fedaigc.errors import FedaigcError, StorageError
from fedaigc.token_budget import TokenBudget
from fedaigc_edge.engine.generator import Generator
from fedaigc_edge.evidence.outbox import Outbox
from fedaigc_edge.serve.answer import Answer, Caller, generate
from fedaigc_edge.serve.embedding import Embedding, embed
from fedaigc_edge.serve.policies import Policies
from fedaigc_edge.serve.policy_gate import PolicyGate
from fedaigc_edge.serve.prompt_tokens import check_token_ids
from fedaigc_edge.serve.request import ChatMessage, EmbeddingRequest, GenerationRequest, TokenReader
from fedaigc_edge.serve.reservation import reserve
from fedaigc_edge.serve.sealed_answer import SealedAnswer, output_id, seal
from fedaigc_edge.serve.served_model import ServedModel
from fedaigc_edge.serve.serving_metrics import ServingMetrics
from fedaigc_edge.serve.stage_clock import StageClock

log = logging.getLogger(__name__)

Remember = Callable[[str, Sequence[ChatMessage], str, bytes], None]
"""Told (output id, messages, text, commitment) of every sealed answer, in a worker thread."""
_LEARNT_ROLES = frozenset({"system", "user", "assistant"})


class Pipeline:
    """Gate, budget, generation, seal: in this order, each taking what the one before it made.

    Args:
        model: the name that callers ask for.
        gate, budget, generator, policies, outbox: the parts; the pipeline closes none of them.
        remember: keeps answers for later feedback; its failure is logged and does not fail the answer.
        metrics: counts, or a fresh one.
    """

    def __init__(
        self,
        model: ServedModel,
        gate: PolicyGate,
        budget: TokenBudget,
        generator: Generator,
        policies: Policies,
        outbox: Outbox,
        remember: Remember | None = None,
        metrics: ServingMetrics | None = None,
    ) -> None:
        self.model = model
        self.policies = policies
        self.outbox = outbox
        self.metrics = metrics or ServingMetrics()
        self.gate = gate
        self._budget = budget
        self._generator = generator
        self._remember = remember
        self._seal_failed = False
        self._running: dict[asyncio.Task[Any], Caller] = {}
        self._remembering: set[asyncio.Task[None]] = set()

    @property
    def token_bytes(self) -> TokenReader:
        """What tokens are in text."""
        return self._generator.token_bytes

    def figures(self) -> Mapping[str, float]:
        """The engine's gauges."""
        return self._generator.figures()

    async def serve(
        self, request: GenerationRequest, caller: Caller, clock: StageClock | None = None
    ) -> SealedAnswer:
        """Answer one request, streamed or whole; returns when the answer's evidence is on disk.

        `clock` has ended then. Raises Denied, RequestInvalid, BudgetExceeded, Busy, CallerGone, StorageError
        or ModelError.
        """
        clock = clock or StageClock()
        with self._known_as_running(caller), self._counting_failures(request):
            sealed = await self._serve(request, caller, clock)
        self._count(sealed, clock)
        return sealed

    async def embed(self, request: EmbeddingRequest) -> Embedding:
        """Vectors of texts, gated and budgeted like a generation. They are no output: nothing is sealed.

        Raises Denied, RequestInvalid, BudgetExceeded, Busy or ModelError.
        """
        with self._counting_failures(request):
            check_token_ids(request, self._generator.vocabulary)
            permit = await self.gate.admit(request, self._generator.token_bytes)
            made = await embed(permit, self._budget, self._generator, self.model)
        self.metrics.requests["ok"] += 1
        self.metrics.prompt_tokens += made.tokens
        log.info("embedded request=%s inputs=%d tokens=%d", request.id, len(made.vectors), made.tokens)
        return made

    async def end(self) -> None:
        """Cut every running answer within one token; returns when what its caller was given is sealed."""
        for caller in self._running.values():
            caller.gone.set()
        if self._running:
            await asyncio.wait(set(self._running))
        await self.remembered()

    async def remembered(self) -> None:
        """Return when every answer that was sealed before now can be given feedback."""
        if self._remembering:
            await asyncio.wait(set(self._remembering))

    @contextlib.contextmanager
    def _known_as_running(self, caller: Caller) -> Iterator[None]:
        task = asyncio.current_task()
        if task is not None:
            self._running[task] = caller
        try:
            yield
        finally:
            if task is not None:
                del self._running[task]

    async def _serve(self, request: GenerationRequest, caller: Caller, clock: StageClock) -> SealedAnswer:
        self.model.pinned(request.model, self.policies.resident_versions)
        check_token_ids(request, self._generator.vocabulary)
        await self._check_evidence()
        with clock.stage("gate"):
            permit = await self.gate.admit(request, self._generator.token_bytes)
        async with reserve(permit, self._budget, self._generator, clock) as reservation:
            answer = await generate(reservation, caller, self._generator, self.policies, self.model, clock)
        sealed = await self._seal(answer, clock)
        if answer.failure is not None:
            raise answer.failure
        self._keep_for_feedback(sealed)
        return sealed

    async def _check_evidence(self) -> None:
        # After a failed seal nothing is generated until the disk takes writes again: a stream would otherwise
        # hand over text that cannot be recorded.
        if self._seal_failed:
            await asyncio.wrap_future(self.outbox.probe())
            self._seal_failed = False

    async def _seal(self, answer: Answer, clock: StageClock) -> SealedAnswer:
        try:
            return await seal(answer, self.outbox, self._generator.base_model, clock)
        except StorageError:
            self._seal_failed = True
            raise

    def _keep_for_feedback(self, sealed: SealedAnswer) -> None:
        """Remember a plain conversation's answers; learning has no form for raw prompts and tool calls."""
        request = sealed.answer.head.reservation.permit.request
        plain = request.messages and request.tools is None
        if self._remember is None or not plain or {m.role for m in request.messages} - _LEARNT_ROLES:
            return
        # Not on the answer's way: it is one more commit, and feedback waits for it where it comes in.
        task = asyncio.create_task(self._remember_choices(self._remember, sealed))
        self._remembering.add(task)
        task.add_done_callback(self._remembering.discard)

    async def _remember_choices(self, remember: Remember, sealed: SealedAnswer) -> None:
        request = sealed.answer.head.reservation.permit.request

        def keep() -> None:
            for choice, evidence in zip(sealed.answer.choices, sealed.evidence, strict=True):
                name = output_id(request.id, choice.index)
                remember(name, request.messages, choice.text, evidence.commitment)

        try:
            await asyncio.to_thread(keep)
        except FedaigcError as error:
            log.warning("remember=failed request=%s code=%s", request.id, error.code)

    def _count(self, sealed: SealedAnswer, clock: StageClock) -> None:
        answer, reservation = sealed.answer, sealed.answer.head.reservation
        self.metrics.requests["cancelled" if answer.finish == "cancelled" else "ok"] += 1
        self.metrics.prompt_tokens += reservation.prompt_tokens
        self.metrics.cached_tokens += answer.cached_tokens
        self.metrics.completion_tokens += answer.completion_tokens
        self.metrics.count_times(clock.end())
        log.info(
            "answered request=%s seq=%d choices=%d policy=%d finish=%s prompt_tokens=%d completion_tokens=%d",
            reservation.permit.request.id,
            sealed.evidence[0].seq,
            len(answer.choices),
            answer.head.policy,
            answer.finish,
            reservation.prompt_tokens,
            answer.completion_tokens,
        )

    @contextlib.contextmanager
    def _counting_failures(self, request: GenerationRequest | EmbeddingRequest) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.metrics.count_failed(error)
            code = error.code if isinstance(error, FedaigcError) else type(error).__name__
            log.info("unanswered request=%s code=%s", request.id, code)
            raise
