"""An answer is sealed when its evidence is on disk, not before."""

from __future__ import annotations

import asyncio

import pytest

from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.fingerprint import commitment_opens, fingerprint_text
from fedaigc_edge.serve.answer import Answer, generate
from fedaigc_edge.serve.reservation import reserve
from fedaigc_edge.serve.sealed_answer import SealedAnswer, seal
from fedaigc_edge.serve.served_model import ServedModel
from fedaigc_edge.step import Maker
from tests.edge.serve.scripted import ListeningCaller, Parts, request


async def answer_of(parts: Parts) -> Answer:
    permit = await parts.gate.admit(request())
    async with reserve(permit, parts.budget, parts.generator) as reservation:
        return await generate(
            reservation,
            ListeningCaller(),
            parts.generator,
            parts.policies,
            ServedModel("tiny"),
        )


def sealed(parts: Parts) -> SealedAnswer:
    async def scenario() -> SealedAnswer:
        return await seal(await answer_of(parts), parts.outbox, "cd" * 32)

    return asyncio.run(scenario())


def test_the_record_says_what_made_the_text(parts: Parts) -> None:
    one = sealed(parts)
    (evidence,) = one.evidence
    record = evidence.record
    assert record["rules"] == parts.gate.rules.version[:16]
    assert (record["policy"], record["model"], record["finish"]) == (3, "cd" * 8, "stop")
    assert (record["seq"], record["tokens_bucket"]) == (1, 4)
    assert commitment_opens(evidence.commitment, evidence.salt, fingerprint_text("Hello, world!"), record)
    assert parts.outbox.counts().sealed == 1


def test_an_answer_that_cannot_be_written_is_not_sealed(parts: Parts) -> None:
    parts.fill_disk()
    with pytest.raises(StorageError, match="disk is full"):
        sealed(parts)
    assert parts.outbox.counts().sealed == 0


def test_a_seal_that_was_submitted_is_written_though_nobody_waits(parts: Parts) -> None:
    async def scenario() -> None:
        answer = await answer_of(parts)
        task = asyncio.create_task(seal(answer, parts.outbox, "cd" * 32))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    parts.outbox.probe().result(5)
    assert parts.outbox.counts().sealed == 1


def test_a_sealed_answer_cannot_be_made_by_hand(parts: Parts) -> None:
    one = sealed(parts)
    with pytest.raises(VerificationFailed, match="seal only"):
        SealedAnswer(one.answer, one.evidence, Maker())  # type: ignore[arg-type]
