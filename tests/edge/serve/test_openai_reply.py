"""Usage counts what was read and made, and the evidence names every output."""

from __future__ import annotations

import asyncio

from fedaigc_edge.serve.openai_reply import evidence, usage
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from fedaigc_edge.serve.stage_clock import STAGES, StageTimes
from tests.edge.serve.scripted import ListeningCaller, Parts, request


def sealed(parts: Parts, n: int) -> SealedAnswer:
    async def scenario() -> SealedAnswer:
        pipeline = parts.pipeline()
        made = await pipeline.serve(request("one two three", n=n), ListeningCaller())
        await pipeline.end()
        return made

    return asyncio.run(scenario())


def test_a_prompt_counts_once_and_every_choice_counts(parts: Parts) -> None:
    parts.generator.cached = 4
    told = usage(sealed(parts, 3))
    assert (told["prompt_tokens"], told["completion_tokens"], told["total_tokens"]) == (6, 12, 18)
    assert told["prompt_tokens_details"]["cached_tokens"] == 4


def test_every_output_is_named_with_its_number(parts: Parts) -> None:
    one = sealed(parts, 2)
    told = evidence(one, None)
    name = one.answer.head.reservation.permit.request.id
    assert (told["request_id"], told["policy_version"], told["fingerprint_seq"]) == (name, 3, 1)
    assert [choice["request_id"] for choice in told["choices"]] == [name, f"{name}-1"]
    assert [choice["fingerprint_seq"] for choice in told["choices"]] == [1, 2]
    for choice in told["choices"]:
        known = parts.outbox.receipt_of(choice["request_id"])
        assert known is not None
        assert known.seq == choice["fingerprint_seq"]


def test_stage_times_are_told_only_when_there_are_any(parts: Parts) -> None:
    one = sealed(parts, 1)
    assert "timings_ms" not in evidence(one, None)
    times = StageTimes(dict.fromkeys(STAGES, 2_000_000), 18_000_000, None, None)
    assert evidence(one, times)["timings_ms"] == {**dict.fromkeys(STAGES, 2.0), "total": 18.0}
