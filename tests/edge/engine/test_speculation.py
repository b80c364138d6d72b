from __future__ import annotations

import asyncio

import pytest

from fedaigc_edge.engine.draft_length import DraftBounds
from fedaigc_edge.engine.generator import Job
from fedaigc_edge.engine.running_answer import EngineGeneration, RunningAnswer
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.engine.speculation import Speculation
from fedaigc_edge.engine.token_sampler import TokenSampler
from tests.edge.engine.counting_graph import END, TEXT, VOCABULARY

REPETITIVE = (5, 6, 7, 8) * 6
FREE = Sampling(50, temperature=1.0)
GREEDY = Sampling(50, temperature=0)


def _answer(sampling: Sampling, features: bool = False) -> RunningAnswer:
    async def go() -> RunningAnswer:
        job = Job(REPETITIVE, sampling, features=features)
        sampler = TokenSampler(sampling, job.prompt, VOCABULARY)
        return RunningAnswer(job, sampler, TEXT, frozenset({END}), EngineGeneration(lambda: None))

    return asyncio.run(go())


def test_a_draft_is_what_followed_the_same_words_before() -> None:
    draft = Speculation(DraftBounds()).draft(_answer(FREE))
    assert draft
    assert draft == [5, 6, 7, 8, 5, 6, 7, 8][: len(draft)]


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(50, temperature=1.0, seed=3)])
def test_an_answer_that_should_repeat_is_drafted_only_when_the_owner_wants_it(sampling: Sampling) -> None:
    assert Speculation(DraftBounds()).draft(_answer(sampling)) == []
    assert Speculation(DraftBounds(), always=True).draft(_answer(sampling))


def test_without_bounds_with_features_or_at_the_last_token_nothing_is_drafted() -> None:
    assert Speculation(None).draft(_answer(FREE)) == []
    assert Speculation(DraftBounds()).draft(_answer(FREE, features=True)) == []
    assert Speculation(DraftBounds()).draft(_answer(Sampling(1, temperature=1.0))) == []


def test_drafts_that_are_always_wrong_are_given_up() -> None:
    speculation, answer = Speculation(DraftBounds()), _answer(FREE)
    for _ in range(200):
        draft = speculation.draft(answer)
        speculation.note(answer, len(draft), 0, 0.01 * (1 + 0.1 * len(draft)))
    drafted = sum(bool(speculation.draft(answer)) for _ in range(10))
    assert drafted <= 1
