from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.engine.batcher import CHUNK_ALONE, Batcher, piece_end
from fedaigc_edge.engine.batching_window import BatchingWindow
from fedaigc_edge.engine.draft_length import DraftBounds
from fedaigc_edge.engine.generator import Job, Piece
from fedaigc_edge.engine.job_line import JobLine
from fedaigc_edge.engine.kv_pool import KvPool
from fedaigc_edge.engine.running_answer import EngineGeneration, RunningAnswer
from fedaigc_edge.engine.sampling import Sampling, TokenChoice
from fedaigc_edge.engine.speculation import Speculation
from fedaigc_edge.engine.token_sampler import TokenSampler
from tests.edge.engine.counting_graph import (
    END,
    SHAPE,
    TEXT,
    VOCABULARY,
    CountingGraph,
    NumberShelf,
    answer_to,
)


class AlwaysOpen(BatchingWindow):
    """Turns by hand take no time, so no window would ever pass."""

    def may_admit(self, now: float, waiting: int, running: int) -> bool:
        return True


class Bench:
    """A batcher over the counting graph, turned by hand."""

    def __init__(self, slots: int = 3, row: int = 600, tokens: int = 1200, speculate: bool = False) -> None:
        self.pool = KvPool(SHAPE, slots, row, tokens * SHAPE.bytes_per_token)
        self.graph = CountingGraph(self.pool)
        self.line: JobLine[RunningAnswer] = JobLine(slots, 1000)
        self.left: list[RunningAnswer] = []
        speculation = Speculation(DraftBounds() if speculate else None, always=True)
        self.batcher = Batcher(
            self.graph, self.pool, self.line, NumberShelf(), speculation, AlwaysOpen(), self.left.append
        )

    def ask(
        self, prompt: Sequence[int], length: int, adapter: str | None = None, features: bool = False
    ) -> EngineGeneration:
        asked = Job(tuple(prompt), Sampling(length, temperature=0), adapter, features=features)
        sampler = TokenSampler(asked.sampling, asked.prompt, VOCABULARY)
        generation = EngineGeneration(lambda: None)
        self.line.enter([RunningAnswer(asked, sampler, TEXT, frozenset({END}), generation)])
        return generation

    def turn(self, turns: int = 100_000) -> None:
        while turns and (len(self.line) or not self.batcher.idle):
            self.batcher.turn()
            turns -= 1


async def tokens_of(generation: EngineGeneration) -> tuple[list[int], str]:
    text, finish, counted = "", "", 0
    async for piece in generation:
        text, finish, counted = text + piece.text, piece.finish or "", counted + piece.tokens
    tokens = [int(word) for word in text.split()]
    assert finish == "cancelled" or counted == len(tokens)
    return tokens, finish


def test_many_answers_together_say_what_each_says_alone() -> None:
    async def go() -> None:
        bench, chance = Bench(), random.Random(1)
        asked = []
        for _ in range(40):
            prompt = [chance.randrange(2, VOCABULARY) for _ in range(chance.choice([1, 5, 60, 300]))]
            length, adapter = chance.randrange(1, 40), chance.choice([None, "1", "2"])
            asked.append((prompt, length, adapter, bench.ask(prompt, length, adapter)))
        bench.turn()
        for prompt, length, adapter, generation in asked:
            assert await tokens_of(generation) == (answer_to(prompt, length, int(adapter or 0)), "length")
        assert len(bench.left) == 40
        assert bench.pool.peak_bytes <= bench.pool.limit_bytes

    asyncio.run(go())


def test_drafts_change_no_token() -> None:
    async def go() -> None:
        bench = Bench(speculate=True)
        prompt = [5, 6, 7, 8] * 20
        expected = answer_to(prompt, 200)
        # The answer to come stands in the prompt, so that drafts are right for a while.
        prompt = prompt + expected[:50]
        generation = bench.ask(prompt, 150)
        bench.turn()
        assert await tokens_of(generation) == (answer_to(prompt, 150), "length")
        again = bench.ask(prompt, 150)
        bench.turn()
        assert (await tokens_of(again))[0] == answer_to(prompt, 150)

    asyncio.run(go())


def test_the_next_turn_of_a_conversation_computes_only_what_is_new() -> None:
    async def go() -> None:
        bench = Bench()
        first = list(range(2, 60))
        generation = bench.ask(first, 20)
        bench.turn()
        answer, _ = await tokens_of(generation)
        before = bench.batcher.counts.prefilled
        second = [*first, *answer, 40, 41, 42]
        generation = bench.ask(second, 10)
        bench.turn()
        assert (await tokens_of(generation))[0] == answer_to(second, 10)
        assert generation.cached_tokens == len(first)
        assert bench.batcher.counts.prefilled - before == len(answer) + 3

    asyncio.run(go())


def test_a_beginning_that_another_answer_is_using_is_copied_and_serves_both() -> None:
    async def go() -> None:
        bench = Bench()
        shared = list(range(2, 90))
        one = bench.ask([*shared, 3, 3], 50)
        bench.turn(5)
        two = bench.ask([*shared, 4, 4], 50)
        bench.turn()
        assert (await tokens_of(one))[0] == answer_to([*shared, 3, 3], 50)
        assert (await tokens_of(two))[0] == answer_to([*shared, 4, 4], 50)
        assert two.cached_tokens == len(shared)
        assert bench.batcher.counts.copied == len(shared)

    asyncio.run(go())


def test_nothing_is_reused_under_another_adapter() -> None:
    async def go() -> None:
        bench = Bench()
        prompt = list(range(2, 80))
        for adapter in (None, "1", None):
            generation = bench.ask(prompt, 5, adapter)
            bench.turn()
            assert (await tokens_of(generation))[0] == answer_to(prompt, 5, int(adapter or 0))
            assert generation.cached_tokens in (0, len(prompt) - 2)
            assert (generation.cached_tokens > 0) == (bench.batcher.counts.reused > 0)

    asyncio.run(go())


def test_memory_bounds_how_many_answer_at_one_time_and_nobody_waits_for_ever() -> None:
    async def go() -> None:
        bench = Bench(slots=3, row=600, tokens=700)
        asked = [(list(range(2, 90)), 400, bench.ask(list(range(2, 90)), 400)) for _ in range(4)]
        bench.turn(20)
        assert bench.line.running == 1
        bench.turn()
        for prompt, length, generation in asked:
            assert (await tokens_of(generation))[0] == answer_to(prompt, length)
        assert bench.pool.peak_bytes <= bench.pool.limit_bytes

    asyncio.run(go())


def test_a_cancelled_answer_ends_within_one_turn_wherever_it_is() -> None:
    async def go() -> None:
        bench = Bench(slots=2)
        writing, prefilling, waiting = bench.ask([2, 3], 500), bench.ask([4] * 500, 50), bench.ask([5], 50)
        bench.turn(2)
        for generation in (writing, prefilling, waiting):
            generation.cancel()
        bench.turn(1)
        assert bench.batcher.idle
        assert not len(bench.line)
        for generation in (writing, prefilling, waiting):
            assert (await tokens_of(generation))[1] == "cancelled"
        assert len(bench.left) == 3

    asyncio.run(go())


def test_a_failed_step_ends_its_answers_with_the_error_and_the_next_one_is_right() -> None:
    async def go() -> None:
        bench = Bench()
        generation = bench.ask([2, 3, 4], 50)
        bench.turn(3)
        bench.graph.fail_next = RuntimeError("secret text")
        bench.turn(1)
        with pytest.raises(ModelError, match="RuntimeError") as caught:
            await tokens_of(generation)
        assert "secret" not in str(caught.value)
        after = bench.ask([2, 3, 4], 50)
        bench.turn()
        assert (await tokens_of(after))[0] == answer_to([2, 3, 4], 50)

    asyncio.run(go())


class Stuck:
    """A chooser that cannot go on after some tokens, as one whose grammar has become too complex."""

    def __init__(self, inner: TokenSampler, tokens: int) -> None:
        self.inner, self.left = inner, tokens

    def choose(self, logits: FloatArray) -> TokenChoice:
        self.left -= 1
        if self.left < 0:
            raise ModelError("The answer cannot go on in its form")
        return self.inner.choose(logits)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_an_answer_that_cannot_choose_ends_alone(place: int, tokens: int) -> None:
    async def go() -> None:
        bench = Bench()
        prompts = [[2, 3, number] for number in (4, 5, 6)]
        asked = [bench.ask(prompt, 50) for prompt in prompts]
        answer = list(bench.line)[place]
        assert isinstance(answer.sampler, TokenSampler)
        answer.sampler = Stuck(answer.sampler, tokens)
        bench.turn()
        for number, (prompt, generation) in enumerate(zip(prompts, asked, strict=True)):
            if number == place:
                with pytest.raises(ModelError, match="cannot go on"):
                    await tokens_of(generation)
            else:
                assert (await tokens_of(generation))[0] == answer_to(prompt, 50)
        assert bench.batcher.counts.failed == 1
        assert len(bench.left) == 3

    asyncio.run(go())


def test_prompts_are_computed_in_pieces_between_which_others_get_tokens() -> None:
    async def go() -> None:
        bench = Bench()
        writing = bench.ask([2, 3], 100)
        bench.turn(2)
        long = bench.ask([7] * 400, 5)
        bench.turn()
        pieces = [step.tokens.shape[1] for step in bench.graph.steps if step.tokens.shape[1] > 2]
        assert sum(pieces) == 400
        assert max(pieces) < CHUNK_ALONE
        assert min(pieces) > 1
        assert (await tokens_of(writing))[0] == answer_to([2, 3], 100)
        assert (await tokens_of(long))[0] == answer_to([7] * 400, 5)

    asyncio.run(go())


def test_features_are_the_mean_state_of_all_answer_tokens() -> None:
    async def go() -> None:
        bench = Bench()
        generation = bench.ask([2, 3, 4], 7, features=True)
        other = bench.ask([9, 9], 30)
        bench.turn()
        answer, _ = await tokens_of(generation)
        assert generation.features is not None
        assert generation.features.tolist() == pytest.approx([sum(answer) / 7] * 3)
        assert (await tokens_of(other))[0] == answer_to([9, 9], 30)

    asyncio.run(go())


def test_the_last_piece_says_why_and_times_follow_one_another() -> None:
    async def go() -> None:
        bench = Bench()
        generation = bench.ask([2, 3], 3)
        bench.turn()
        pieces = [piece async for piece in generation]
        assert [piece.finish for piece in pieces] == [None, None, "length"]
        assert all(isinstance(piece, Piece) for piece in pieces)
        times = generation.times
        assert min(times.queue_ns, times.prefill_ns, times.decode_ns) >= 0
        assert times.prefill_ns > 0

    asyncio.run(go())


@given(st.integers(1, 2000), st.integers(2, 300), st.integers(0, 1999))
def test_a_piece_is_never_one_token_unless_the_prompt_is(length: int, most: int, start: int) -> None:
    if length - start < 2:
        return
    pieces = []
    while start < length:
        end = piece_end(start, length, most)
        pieces.append(end - start)
        start = end
    assert start == length
    assert max(pieces) <= most
    assert min(pieces) > 1 or most == 2
