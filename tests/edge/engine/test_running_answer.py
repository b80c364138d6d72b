from __future__ import annotations

import asyncio

import numpy as np
import pytest

from fedaigc_edge.engine.generator import Job, Piece
from fedaigc_edge.engine.running_answer import EngineGeneration, HandOver, RunningAnswer
from fedaigc_edge.engine.sampling import Sampling, TokenChoice
from fedaigc_edge.engine.token_sampler import TokenSampler
from tests.edge.engine.counting_graph import END, TEXT, VOCABULARY


class Finished:
    """A grammar that is complete."""

    finished = True


def _answer(tokens: int = 4, logprobs: int | None = None, finished: bool = False) -> RunningAnswer:
    sampling = Sampling(tokens, temperature=0, logprobs=logprobs)
    job = Job((5, 6), sampling)
    sampler = TokenSampler(sampling, job.prompt, VOCABULARY)
    grammar = Finished() if finished else None
    return RunningAnswer(job, sampler, TEXT, frozenset({END}), EngineGeneration(lambda: None), grammar)


def _choices(*tokens: int) -> list[TokenChoice]:
    return [TokenChoice(token, -1.0) for token in tokens]


def test_tokens_after_the_end_are_dropped() -> None:
    async def go() -> None:
        answer = _answer()
        piece = answer.take(_choices(7, END, 8))
        assert (piece.text, piece.tokens, piece.finish) == ("7 ", 2, "stop")
        assert answer.written == [7, END]

    asyncio.run(go())


def test_the_limit_ends_an_answer_and_counts_every_token() -> None:
    async def go() -> None:
        answer = _answer(tokens=3)
        assert answer.take(_choices(7, 8)).finish is None
        piece = answer.take(_choices(9, 10))
        assert (piece.text, piece.tokens, piece.finish) == ("9 ", 1, "length")
        assert answer.tokens_left == 0

    asyncio.run(go())


def test_a_complete_grammar_ends_an_answer() -> None:
    async def go() -> None:
        assert _answer(finished=True).take(_choices(7)).finish == "stop"

    asyncio.run(go())


@pytest.mark.parametrize(("logprobs", "reported"), [(None, 0), (0, 2)])
def test_choices_are_reported_when_asked_for(logprobs: int | None, reported: int) -> None:
    async def go() -> None:
        assert len(_answer(logprobs=logprobs).take(_choices(7, 8)).choices) == reported

    asyncio.run(go())


def test_features_are_a_mean_over_all_states() -> None:
    async def go() -> None:
        answer = _answer()
        assert answer.features is None
        answer.add_hidden(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
        answer.add_hidden(np.array([[5.0, 6.0]], np.float32))
        assert answer.features is not None
        assert answer.features.tolist() == [3.0, 4.0]

    asyncio.run(go())


def test_times_follow_one_another_and_begin_at_zero() -> None:
    async def go() -> None:
        answer = _answer()
        assert answer.times.prefill_ns == answer.times.decode_ns == 0
        answer.admit(0, 0)
        answer.take(_choices(7))
        answer.take(_choices(8))
        times = answer.times
        assert min(times.queue_ns, times.prefill_ns, times.decode_ns) > 0

    asyncio.run(go())


def test_what_a_step_made_reaches_its_caller_and_an_error_is_raised() -> None:
    async def go() -> None:
        answer, over = _answer(), HandOver()
        over.add(answer, Piece("a", 1))
        over.add(answer, ValueError("broken"))
        over.send()
        pieces = []
        with pytest.raises(ValueError, match="broken"):
            async for piece in answer.generation:
                pieces.append(piece.text)
        assert pieces == ["a"]

    asyncio.run(go())


def test_a_closed_loop_has_no_callers() -> None:
    async def go() -> RunningAnswer:
        return _answer()

    answer, over = asyncio.run(go()), HandOver()
    over.add(answer, Piece("a", 1))
    over.send()
