"""Generation ends with the model, a stop, the limit or the caller, and the answer is what the caller got."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fedaigc.errors import ModelError, VerificationFailed
from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.serve.answer import Answer, generate
from fedaigc_edge.serve.generation_slots import CallerGone, GenerationSlots
from fedaigc_edge.serve.request import UnknownModel
from fedaigc_edge.serve.reservation import reserve
from fedaigc_edge.serve.served_model import ServedModel
from fedaigc_edge.step import Maker
from tests.edge.serve.scripted import FixedPolicy, ListeningCaller, Parts, ScriptedGenerator, request, until


def answered(parts: Parts, caller: ListeningCaller, **changes: Any) -> Answer:
    async def scenario() -> Answer:
        permit = await parts.gate.admit(request(**changes))
        async with reserve(permit, parts.budget, parts.generator) as reservation:
            return await generate(
                reservation, caller, parts.generator, parts.policies, GenerationSlots(), ServedModel("tiny")
            )

    return asyncio.run(scenario())


def test_a_stream_hands_over_every_piece_under_one_policy(parts: Parts) -> None:
    caller = ListeningCaller()
    answer = answered(parts, caller)
    assert caller.texts == ["Hello", ", ", "world", "!"]
    assert (answer.text, answer.finish, answer.tokens) == ("Hello, world!", "stop", 4)
    assert {(head.policy, head.model) for head in caller.heads} == {(3, "tiny@3")}
    assert parts.generator.seen[0][2] == "policy-3"
    assert parts.policies.leases == 0
    assert parts.budget.used == len(parts.generator.seen[0][0]) + 4


def test_a_whole_answer_is_not_handed_over_in_pieces(parts: Parts) -> None:
    caller = ListeningCaller(streams=False)
    assert answered(parts, caller).text == "Hello, world!"
    assert caller.texts == []


def test_a_stop_sequence_across_pieces_ends_the_answer_before_it(parts: Parts) -> None:
    caller = ListeningCaller()
    answer = answered(parts, caller, stop=(", wor",))
    assert (answer.text, answer.finish, answer.tokens) == ("Hello", "stop", 3)
    assert "".join(caller.texts) == "Hello"
    until(lambda: parts.generator.running == 0)
    assert parts.generator.made == 3


def test_a_stop_that_only_began_is_handed_over_at_the_end(parts: Parts) -> None:
    assert answered(parts, ListeningCaller(), stop=("!?",)).text == "Hello, world!"


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_limit_ends_the_answer(parts: Parts, limit: int) -> None:
    answer = answered(parts, ListeningCaller(), max_tokens=limit)
    assert (answer.tokens, answer.finish) == (limit, "length")


def test_a_generator_that_ignores_the_limit_is_cut_off(parts: Parts) -> None:
    class Endless(ScriptedGenerator):
        def generate(self, prompt, sampling, adapter, cancelled):  # type: ignore[no-untyped-def]
            return super()._pieces(type(sampling)(max_tokens=10**6), cancelled)

    parts.generator = Endless(pieces=["x"] * 1000)
    answer = answered(parts, ListeningCaller(), max_tokens=5)
    assert (answer.text, answer.tokens, answer.finish) == ("xxxxx", 5, "length")


def test_a_caller_who_leaves_a_stream_ends_it_within_one_token(parts: Parts) -> None:
    parts.generator = ScriptedGenerator(pieces=["word "] * 500, pause_s=0.01)
    answer = answered(parts, ListeningCaller(leave_after=3))
    assert (answer.text, answer.finish) == ("word word word ", "cancelled")
    assert parts.generator.made <= 3 + 2
    assert parts.budget.held == 0


def test_a_caller_who_leaves_before_the_first_word_leaves_no_answer(parts: Parts) -> None:
    caller = ListeningCaller()
    caller.gone.set()
    with pytest.raises(CallerGone):
        answered(parts, caller)


def test_a_whole_answers_caller_who_leaves_ends_the_generation(parts: Parts) -> None:
    parts.generator = ScriptedGenerator(pieces=["word "] * 500, pause_s=0.01)
    caller = ListeningCaller(streams=False)

    async def leave() -> None:
        await asyncio.to_thread(until, lambda: parts.generator.made >= 3)
        caller.gone.set()

    async def scenario() -> None:
        permit = await parts.gate.admit(request())
        leaving = asyncio.create_task(leave())
        async with reserve(permit, parts.budget, parts.generator) as reservation:
            await generate(
                reservation, caller, parts.generator, parts.policies, GenerationSlots(), ServedModel("tiny")
            )
        await leaving

    with pytest.raises(CallerGone):
        asyncio.run(scenario())
    assert parts.generator.made <= 5
    assert 3 <= parts.budget.used - len(parts.generator.seen[0][0]) <= 5


@pytest.mark.parametrize("streams", [True, False])
def test_a_generator_that_fails_before_anything_is_handed_over_raises(parts: Parts, streams: bool) -> None:
    parts.generator = ScriptedGenerator(pieces=() if streams else ("word",), failure=ModelError("It failed"))
    with pytest.raises(ModelError):
        answered(parts, ListeningCaller(streams))
    assert (parts.policies.leases, parts.budget.held) == (0, 0)


def test_a_stream_that_fails_keeps_what_was_handed_over(parts: Parts) -> None:
    parts.generator.failure = ModelError("The runtime failed")
    answer = answered(parts, ListeningCaller())
    assert (answer.text, answer.finish, answer.failure) == (
        "Hello, world!",
        "failed",
        parts.generator.failure,
    )
    assert (parts.policies.leases, parts.budget.held) == (0, 0)


def test_a_pinned_version_that_was_swapped_away_is_unknown(parts: Parts) -> None:
    parts.policies.current = FixedPolicy(PolicyVersion(4), "policy-4")
    with pytest.raises(UnknownModel):
        answered(parts, ListeningCaller(), model="tiny@3")


def test_half_a_surrogate_is_replaced_before_anybody_sees_it(parts: Parts) -> None:
    parts.generator = ScriptedGenerator(pieces=["a\ud800b"])
    caller = ListeningCaller()
    assert answered(parts, caller).text == "".join(caller.texts) == "a?b"


def test_an_answer_cannot_be_made_by_hand_and_shows_no_text(parts: Parts) -> None:
    answer = answered(parts, ListeningCaller())
    assert "world" not in repr(answer)
    with pytest.raises(VerificationFailed, match="generate only"):
        Answer(answer.head, "text", "stop", 1, None, Maker())  # type: ignore[arg-type]
