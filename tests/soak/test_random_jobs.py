"""Ten thousand random jobs for the engine: lengths, cancels, impossible wishes; nothing stays held."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from fedaigc.errors import FedaigcError, ModelError
from fedaigc_edge.engine.batching_generator import BatchingGenerator, EngineSettings
from fedaigc_edge.engine.generator import Job
from fedaigc_edge.engine.sampling import Grammar, Sampling
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.serve.request import ContextTooLong
from tests.soak.memory_slope import growth_mb, rss_mb

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

JOBS = 10_000
CALLERS = 24
KV_BYTES = 2 << 20
"""Room for about two thousand tokens in all: less than what the slots would take together."""
GROWTH_MB = 8.0
SAMPLE_EVERY = 100


@pytest.fixture
def generator(tiny_model: ModelFolder) -> Iterator[BatchingGenerator]:
    settings = EngineSettings(slots=8, waiting=12, kv_bytes=KV_BYTES, threads=1)
    made = BatchingGenerator(tiny_model, settings)
    yield made
    made.close()


def test_ten_thousand_random_jobs_leave_nothing_behind(generator: BatchingGenerator) -> None:
    asyncio.run(_soak(generator))


async def _soak(generator: BatchingGenerator) -> None:
    outcomes: Counter[str] = Counter()
    memory: list[float] = []
    numbers = iter(range(JOBS))

    async def caller() -> None:
        for number in numbers:
            outcomes[await _one(generator, random.Random(number))] += 1
            _check_pool(generator)
            if number % SAMPLE_EVERY == 0:
                memory.append(rss_mb())

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    assert sum(outcomes.values()) == JOBS
    assert {"length", "cancelled", "ContextTooLong", "ModelError", "Busy"} <= set(outcomes), outcomes
    figures = generator.figures()
    assert figures["running"] == figures["waiting"] == 0
    assert figures["failed_total"] == 0
    # What is kept for reuse is promised exactly as much as it holds: no slot keeps a dead answer's promise.
    assert figures["kv_promised_bytes"] == figures["kv_held_bytes"]
    assert growth_mb(memory) < GROWTH_MB, memory


def _check_pool(generator: BatchingGenerator) -> None:
    figures = generator.figures()
    assert figures["kv_peak_bytes"] <= figures["kv_limit_bytes"] == KV_BYTES
    assert figures["running"] <= figures["slots"]


async def _one(generator: BatchingGenerator, wish: random.Random) -> str:
    """Start one random job; returns how it ended, or the name of the error that refused it."""
    tokens = wish.choice((1, 2, 5, 12, 30))
    prompt = [wish.randrange(3, generator.vocabulary) for _ in range(wish.choice((1, 7, 40, 120)))]
    if wish.random() < 0.3:
        # Some share their beginning, so that rows are reused and copied.
        prompt[: len(prompt) // 2] = [5] * (len(prompt) // 2)
    sampling = Sampling(
        tokens,
        temperature=wish.choice((0.0, 0.7, 1.5)),
        top_k=wish.choice((0, 5)),
        top_p=wish.choice((1.0, 0.8)),
        frequency_penalty=wish.choice((0.0, 0.5)),
        seed=wish.choice((None, 7)),
        logprobs=wish.choice((None, 2)),
    )
    fault = wish.random()
    grammar = Grammar("regex", "[a-z ]+") if fault < 0.02 else None
    if 0.02 <= fault < 0.05:
        prompt *= 1 + generator.context_length // len(prompt)
    adapter = "never-loaded" if 0.05 <= fault < 0.08 else None
    leave_after = wish.choice((0, 1, 3, 8)) if wish.random() < 0.25 else None
    job = Job(tuple(prompt), sampling, adapter, grammar, features=wish.random() < 0.1)
    try:
        return await _listen(generator, [job] * wish.choice((1, 1, 1, 3)), leave_after)
    except (FedaigcError, ContextTooLong, ModelError) as error:
        return type(error).__name__


async def _listen(generator: BatchingGenerator, jobs: list[Job], leave_after: int | None) -> str:
    ends = []
    for generation in generator.start(jobs):
        made, finish = 0, ""
        if leave_after == 0:
            generation.cancel()
        async for piece in generation:
            made += piece.tokens
            finish = piece.finish or finish
            if leave_after is not None and made >= leave_after:
                generation.cancel()
        assert made <= jobs[0].sampling.max_tokens
        assert finish in {"stop", "length", "cancelled"}
        ends.append(finish)
    return ends[0]
