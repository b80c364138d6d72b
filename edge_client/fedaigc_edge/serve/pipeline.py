"""The one way from a request to a sealed answer; every route that generates goes through `Pipeline.serve`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fedaigc.errors import FedaigcError, StorageError
from fedaigc.token_budget import TokenBudget
from fedaigc_edge.evidence.outbox import Outbox
from fedaigc_edge.serve.answer import Answer, Caller, Policies, generate
from fedaigc_edge.serve.generation_slots import GenerationSlots
from fedaigc_edge.serve.generator import Generator
from fedaigc_edge.serve.policy_gate import PolicyGate
from fedaigc_edge.serve.request import ChatMessage, GenerationRequest
from fedaigc_edge.serve.reservation import Reservation, reserve
from fedaigc_edge.serve.sealed_answer import SealedAnswer, seal
from fedaigc_edge.serve.served_model import ServedModel
from fedaigc_edge.serve.serving_metrics import ServingMetrics

log = logging.getLogger(__name__)

Remember = Callable[[str, Sequence[ChatMessage], str, bytes], None]
"""Told (request id, messages, answer's text, commitment) of every sealed answer, in a worker thread."""


class Pipeline:
    """Gate, budget, generation, seal: in this order, each taking what the one before it made.

    Args:
        model: the name that callers ask for.
        gate, budget, slots, generator, policies, outbox: the parts; the pipeline closes none of them.
        remember: keeps answers for later feedback; its failure is logged and does not fail the answer.
        metrics: counts, or a fresh one.
    """

    def __init__(
        self,
        model: ServedModel,
        gate: PolicyGate,
        budget: TokenBudget,
        slots: GenerationSlots,
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
        self._slots = slots
        self._generator = generator
        self._remember = remember
        self._seal_failed = False
        self._running: dict[asyncio.Task[Any], Caller] = {}

    async def serve(self, request: GenerationRequest, caller: Caller) -> SealedAnswer:
        """Answer one request, streamed or whole; returns when the answer's evidence is on disk.

        Raises Denied, RequestInvalid, BudgetExceeded, Busy, CallerGone, StorageError or ModelError.
        """
        with self._known_as_running(caller):
            try:
                with self.metrics.stage("total"):
                    sealed = await self._serve(request, caller)
            except Exception as error:
                self._count_failure(request, error)
                raise
            self._count(sealed)
            return sealed

    async def end(self) -> None:
        """Cut every running answer within one token; returns when what its caller was given is sealed."""
        for caller in self._running.values():
            caller.gone.set()
        if self._running:
            await asyncio.wait(set(self._running))

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

    async def _serve(self, request: GenerationRequest, caller: Caller) -> SealedAnswer:
        self.model.check(request.model, self.policies.current.version)
        await self._check_evidence()
        with self.metrics.stage("gate"):
            permit = await self.gate.admit(request)
        with self.metrics.stage("queue_and_generate"):
            async with reserve(permit, self._budget, self._generator) as reservation:
                answer = await self._generate(reservation, caller)
        with self.metrics.stage("seal"):
            sealed = await self._seal(answer)
        if answer.failure is not None:
            raise answer.failure
        with self.metrics.stage("remember"):
            await self._keep_for_feedback(sealed)
        return sealed

    async def _generate(self, reservation: Reservation, caller: Caller) -> Answer:
        return await generate(reservation, caller, self._generator, self.policies, self._slots, self.model)

    async def _check_evidence(self) -> None:
        # After a failed seal nothing is generated until the disk takes writes again: a stream would otherwise
        # hand over text that cannot be recorded.
        if self._seal_failed:
            await asyncio.wrap_future(self.outbox.probe())
            self._seal_failed = False

    async def _seal(self, answer: Answer) -> SealedAnswer:
        try:
            return await seal(answer, self.outbox, self._generator.base_model)
        except StorageError:
            self._seal_failed = True
            raise

    async def _keep_for_feedback(self, sealed: SealedAnswer) -> None:
        if self._remember is None:
            return
        request = sealed.answer.head.reservation.permit.request
        try:
            await asyncio.to_thread(
                self._remember, request.id, request.messages, sealed.answer.text, sealed.evidence.commitment
            )
        except FedaigcError as error:
            log.warning("remember=failed request=%s code=%s", request.id, error.code)

    def _count(self, sealed: SealedAnswer) -> None:
        answer, reservation = sealed.answer, sealed.answer.head.reservation
        self.metrics.requests["cancelled" if answer.finish == "cancelled" else "ok"] += 1
        self.metrics.prompt_tokens += len(reservation.prompt)
        self.metrics.completion_tokens += answer.tokens
        log.info(
            "answered request=%s seq=%d policy=%d finish=%s prompt_tokens=%d completion_tokens=%d",
            reservation.permit.request.id,
            sealed.evidence.seq,
            answer.head.policy,
            answer.finish,
            len(reservation.prompt),
            answer.tokens,
        )

    def _count_failure(self, request: GenerationRequest, error: Exception) -> None:
        self.metrics.count_failed(error)
        code = error.code if isinstance(error, FedaigcError) else type(error).__name__
        log.info("unanswered request=%s code=%s", request.id, code)
