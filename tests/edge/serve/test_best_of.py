"""The head ranks what it was trained on; without one the likeliest candidate is chosen."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from fedaigc.identifiers import PolicyVersion
from fedaigc.reward_head import RewardHead
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.serve.best_of import Candidate, rank
from fedaigc_edge.serve.chat_reply import ChatForm
from fedaigc_edge.serve.request import GenerationRequest
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from tests.edge.serve.scripted import FixedPolicy, ListeningCaller, Parts, request

HEAD = RewardHead(np.array([1.0, -2.0], dtype=np.float32), 1, "ab" * 32)
ZERO = RewardHead.zero(2, 1, "ab" * 32)


def policy(head: RewardHead | None) -> FixedPolicy:
    return FixedPolicy(PolicyVersion(3), "policy-3", head)


def vectors(*rows: tuple[float, float]) -> list[Any]:
    return [np.array(row, dtype=np.float32) for row in rows]


def test_the_candidate_with_the_highest_score_is_chosen() -> None:
    features = vectors((0.0, 0.0), (3.0, 1.0), (2.0, 2.0))
    ranking = rank([Candidate(each, -9.0) for each in features], policy(HEAD))
    assert ranking.scores == tuple(float(each @ HEAD.weights) for each in features) == (0.0, 1.0, -2.0)
    assert (ranking.chosen, ranking.head_policy) == (1, 3)


@pytest.mark.parametrize("head", [None, ZERO])
def test_without_a_head_that_ranks_the_likeliest_is_chosen(head: RewardHead | None) -> None:
    candidates = [
        Candidate(each, mean) for each, mean in zip(vectors((1, 0), (9, 0)), (-0.5, -1.0), strict=True)
    ]
    ranking = rank(candidates, policy(head))
    assert (ranking.chosen, ranking.scores, ranking.head_policy) == (0, (-0.5, -1.0), None)


def test_an_engine_without_features_leaves_the_head_out() -> None:
    ranking = rank([Candidate(None, -2.0), Candidate(vectors((1, 1))[0], -1.0)], policy(HEAD))
    assert (ranking.chosen, ranking.head_policy) == (1, None)


def test_of_equal_scores_the_first_is_chosen() -> None:
    assert rank([Candidate(None, -1.0)] * 3, policy(None)).chosen == 0


def served(parts: Parts, asked: GenerationRequest, caller: ListeningCaller) -> SealedAnswer:
    async def scenario() -> SealedAnswer:
        pipeline = parts.pipeline()
        sealed = await pipeline.serve(asked, caller)
        await pipeline.end()
        return sealed

    return asyncio.run(scenario())


@pytest.mark.parametrize("streams", [True, False])
def test_only_the_best_is_returned_sealed_and_remembered_and_all_are_paid_for(
    parts: Parts, streams: bool
) -> None:
    parts.policies.current = policy(HEAD)
    parts.generator.each = (["a", "b"], ["c"], ["d", "e", "f"])
    parts.generator.hidden = vectors((0.0, 0.0), (3.0, 1.0), (2.0, 2.0))
    asked, caller = request(best_of=3), ListeningCaller(streams)
    sealed = served(parts, asked, caller)
    (choice,) = sealed.answer.choices
    assert (choice.index, choice.text, choice.finish, choice.tokens) == (0, "c", "stop", 1)
    assert caller.texts == (["c"] if streams else [])
    assert parts.outbox.counts().sealed == 1
    assert [text for _, _, text, _ in parts.remembered] == ["c"]
    assert sealed.answer.completion_tokens == 6
    assert parts.budget.used == len(parts.generator.seen[0].prompt) + 6
    assert all(job.features for job in parts.generator.seen)
    told = ChatForm(asked, 5, False).whole(sealed, None)
    assert told["usage"]["completion_tokens"] == 6
    assert told["fedaigc"] == {
        "request_id": asked.id,
        "policy_version": 3,
        "fingerprint_seq": 1,
        "best_of": 3,
        "chosen": 1,
        "scores": [0.0, 1.0, -2.0],
        "head_policy": 3,
        "ranked_by": "reward_head",
    }
    assert told["choices"][0]["logprobs"] is None


def test_the_base_models_answer_says_that_no_head_ranked(parts: Parts) -> None:
    parts.policies.current = FixedPolicy(PolicyVersion(0), None)
    parts.generator.each = (["a", "b"], ["c"])
    asked = request(best_of=2)
    told = ChatForm(asked, 5, False).whole(served(parts, asked, ListeningCaller(False)), None)["fedaigc"]
    # Scripted tokens have the logprobs -1, -2, ...: the shorter candidate is likelier on average.
    assert (told["head_policy"], told["ranked_by"], told["chosen"]) == (None, "mean_logprob", 1)
    assert told["scores"] == [-1.5, -1.0]


def test_logprobs_that_the_caller_asked_for_are_those_of_the_best(parts: Parts) -> None:
    parts.generator.each = (["a", "b"], ["c"])
    asked = request(best_of=2, sampling=Sampling(0, logprobs=2))
    whole = ChatForm(asked, 5, False).whole(served(parts, asked, ListeningCaller(False)), None)
    (entry,) = whole["choices"][0]["logprobs"]["content"]
    assert (entry["token"], len(entry["top_logprobs"])) == ("c", 2)
