"""The blocking generator keeps to the engine's protocol, and refuses by name what it cannot do."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from fedaigc.errors import Busy, ModelError, RequestInvalid
from fedaigc_edge.engine.generator import Job, Piece
from fedaigc_edge.engine.sampling import Grammar, Sampling
from fedaigc_edge.engine.threaded_generator import ThreadedGenerator
from fedaigc_edge.serve import generator as blocking


class Words:
    """A blocking generator of numbered words, one every 5 ms."""

    base_model = "ab" * 32
    context_length = 100
    _vocabulary = 500

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.seen: list[Any] = []

    def generate(
        self, prompt: Any, sampling: blocking.Sampling, adapter: str | None, cancelled: threading.Event
    ) -> Iterator[blocking.Piece]:
        self.seen.append((prompt, sampling, adapter))
        for number in range(sampling.max_tokens):
            time.sleep(0.005)
            if cancelled.is_set():
                yield blocking.Piece("", 0, "cancelled")
                return
            last = number + 1 == sampling.max_tokens
            yield blocking.Piece(f"{number} ", 1, "length" if last else None)
        if self.failure is not None:
            raise self.failure


def engine(model: Words, slots: int = 2, waiting: int = 1) -> ThreadedGenerator:
    return ThreadedGenerator(cast(blocking.GenaiGenerator, model), slots, waiting)


def job(count: int = 3, **changes: Any) -> Job:
    return Job((1, 2), Sampling(count, **changes), "policy-1")


async def pieces(generation: Any) -> list[Piece]:
    return [piece async for piece in generation]


def test_pieces_arrive_on_the_loop_and_the_times_follow_one_another() -> None:
    async def scenario() -> None:
        generator = engine(Words())
        (running,) = generator.start([job()])
        got = await pieces(running)
        assert "".join(piece.text for piece in got) == "0 1 2 "
        assert got[-1].finish == "length"
        assert running.times.prefill_ns > 0 and running.times.decode_ns > 0
        generator.close()

    asyncio.run(scenario())


def test_a_full_line_is_busy_and_takes_all_jobs_or_none() -> None:
    async def scenario() -> None:
        model = Words()
        generator = engine(model)
        running = generator.start([job(), job()])
        with pytest.raises(Busy) as caught:
            generator.start([job(), job()])
        assert caught.value.retry_after_s >= 1
        running = [*running, *generator.start([job()])]
        assert [len(await pieces(each)) for each in running] == [3, 3, 3]
        generator.close()
        assert len(model.seen) == 3

    asyncio.run(scenario())


def test_cancel_ends_within_a_token_also_while_waiting() -> None:
    async def scenario() -> None:
        generator = engine(Words(), slots=1, waiting=1)
        first, second = generator.start([job(1000), job(1000)])
        second.cancel()
        await asyncio.sleep(0.03)
        first.cancel()
        assert (await pieces(first))[-1].finish == "cancelled"
        assert [piece.finish for piece in await pieces(second)] == ["cancelled"]
        generator.close()

    asyncio.run(scenario())


def test_a_failure_is_raised_where_the_pieces_are_read() -> None:
    async def scenario() -> None:
        generator = engine(Words(ModelError("broken")))
        (running,) = generator.start([job(0)])
        with pytest.raises(ModelError):
            await pieces(running)
        generator.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "changes", [{"min_p": 0.1}, {"logit_bias": {1: 1.0}}, {"logprobs": 0}, {"presence_penalty": 0.5}]
)
def test_what_it_cannot_do_is_refused_by_name(changes: dict[str, Any]) -> None:
    async def scenario() -> None:
        generator = engine(Words())
        with pytest.raises(RequestInvalid) as caught:
            generator.start([job(**changes)])
        assert caught.value.field == next(iter(changes))
        with pytest.raises(RequestInvalid):
            generator.start([Job((1,), Sampling(1), grammar=Grammar("regex", "a"))])
        generator.close()

    asyncio.run(scenario())
