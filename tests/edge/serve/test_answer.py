"""Generation ends with the model, a stop, the limit or the caller, and the answer is what the caller got."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fedaigc.errors import ModelError, VerificationFailed
from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.engine.generator import Job
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.serve.answer import Answer, generate
from fedaigc_edge.serve.request import CallerGone, UnknownModel
from fedaigc_edge.serve.reservation import reserve
from fedaigc_edge.serve.served_model import ServedModel
from fedaigc_edge.step import Maker
from tests.edge.serve.scripted import FixedPolicy, ListeningCaller, Parts, request, until
from tests.edge.serve.scripted_generator import ScriptedGeneration, ScriptedGenerator


def answered(parts: Parts, caller: ListeningCaller, **changes: Any) -> Answer:
    async def scenario() -> Answer:
        permit = await parts.gate.admit(request(**changes))
        async with reserve(permit, parts.budget, parts.generator) as reservation:
            return await generate(reservation, caller, parts.generator, parts.policies, ServedModel("tiny"))

    return asyncio.run(scenario())


def test_a_stream_hands_over_every_piece_under_one_policy(parts: Parts) -> None:
    caller = ListeningCaller()
    answer = answered(parts, caller)
    assert caller.texts == ["Hello", ", ", "world", "!"]
    assert (answer.choices[0].text, answer.finish, answer.completion_tokens) == ("Hello, world!", "stop", 4)
    assert {(head.policy, head.model) for head in caller.heads} == {(3, "tiny@3")}
    assert parts.generator.seen[0].adapter == "policy-3"
    assert parts.policies.leases == 0
    assert parts.budget.used == len(parts.generator.seen[0].prompt) + 4


def test_a_whole_answer_is_not_handed_over_in_pieces(parts: Parts) -> None:
    caller = ListeningCaller(streams=False)
    assert answered(parts, caller).choices[0].text == "Hello, world!"
    assert caller.texts == []


def test_a_stop_sequence_across_pieces_ends_the_answer_before_it(parts: Parts) -> None:
    caller = ListeningCaller()
    answer = answered(parts, caller, stop=(", wor",))
    assert (answer.choices[0].text, answer.finish, answer.completion_tokens) == ("Hello", "stop", 3)
    assert "".join(caller.texts) == "Hello"
    until(lambda: parts.generator.running == 0)
    assert parts.generator.made == 3


def test_a_stop_that_only_began_is_handed_over_at_the_end(parts: Parts) -> None:
    assert answered(parts, ListeningCaller(), stop=("!?",)).choices[0].text == "Hello, world!"


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_limit_ends_the_answer(parts: Parts, limit: int) -> None:
    answer = answered(parts, ListeningCaller(), max_tokens=limit)
    assert (answer.completion_tokens, answer.finish) == (limit, "length")


def test_a_generator_that_ignores_the_limit_is_cut_off(parts: Parts) -> None:
    class Endless(ScriptedGenerator):
        def start(self, jobs: Sequence[Job]) -> Sequence[ScriptedGeneration]:
            return super().start([replace(job, sampling=Sampling(10**6)) for job in jobs])

    parts.generator = Endless(pieces=["x"] * 1000)
    (choice,) = answered(parts, ListeningCaller(), max_tokens=5).choices
    assert (choice.text, choice.tokens, choice.finish) == ("xxxxx", 5, "length")
    assert parts.generator.made == 6


def test_a_caller_who_leaves_a_stream_ends_it_within_one_token(parts: Parts) -> None:
    parts.generator = ScriptedGenerator(pieces=["word "] * 500, pause_s=0.01)
    answer = answered(parts, ListeningCaller(leave_after=3))
    assert (answer.choices[0].text, answer.finish) == ("word word word ", "cancelled")
    assert parts.generator.made <= 3 + 2
    assert parts.budget.held == 0


def test_a_caller_who_leaves_before_the_first_word_leaves_no_answer(parts: Parts) -> None:
    caller = ListeningCaller()
    caller.gone.set()
    with pytest.raises(CallerGone):
        answered(parts, caller)


class Stalled(ListeningCaller):
    """Takes some and then nothing more, without leaving."""

    def __init__(self, takes: int) -> None:
        super().__init__()
        self.takes = takes

    async def deliver(self, head: Any, deltas: Any) -> None:
        await super().deliver(head, deltas)
        if len(self.texts) == self.takes:
            await asyncio.Event().wait()


def test_a_caller_who_takes_nothing_for_too_long_is_given_up(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedaigc_edge.serve.answer.STALLED_S", 0.05)
    caller = Stalled(takes=2)
    answer = answered(parts, caller)
    assert (answer.choices[0].text, answer.finish) == ("Hello, ", "cancelled")
    assert "".join(caller.texts) == "Hello, "
    assert (parts.policies.leases, parts.budget.held) == (0, 0)


@pytest.mark.parametrize(("best_of", "takes"), [(1, 2), (2, 1)])
def test_a_caller_who_takes_nothing_is_given_up_at_once_when_the_device_stops(
    parts: Parts, best_of: int, takes: int
) -> None:
    caller = Stalled(takes)

    async def scenario() -> Answer:
        permit = await parts.gate.admit(request(best_of=best_of))
        async with reserve(permit, parts.budget, parts.generator) as reservation:
            work = generate(reservation, caller, parts.generator, parts.policies, ServedModel("tiny"))
            running = asyncio.create_task(work)
            while len(caller.texts) < takes:  # noqa: ASYNC110 (the caller has no event for it)
                await asyncio.sleep(0.001)
            caller.gone.set()
            return await asyncio.wait_for(running, 5)

    assert asyncio.run(scenario()).choices[0].text == "".join(caller.texts)
    assert (parts.policies.leases, parts.budget.held) == (0, 0)


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
            await generate(reservation, caller, parts.generator, parts.policies, ServedModel("tiny"))
        await leaving

    with pytest.raises(CallerGone):
        asyncio.run(scenario())
    assert parts.generator.made <= 5
    assert 3 <= parts.budget.used - len(parts.generator.seen[0].prompt) <= 5


@pytest.mark.parametrize("streams", [True, False])
def test_a_generator_that_fails_before_anything_is_handed_over_raises(parts: Parts, streams: bool) -> None:
    parts.generator = ScriptedGenerator(pieces=() if streams else ("word",), failure=ModelError("It failed"))
    with pytest.raises(ModelError):
        answered(parts, ListeningCaller(streams))
    assert (parts.policies.leases, parts.budget.held) == (0, 0)


def test_a_stream_that_fails_keeps_what_was_handed_over(parts: Parts) -> None:
    parts.generator.failure = ModelError("The runtime failed")
    answer = answered(parts, ListeningCaller())
    assert (answer.choices[0].text, answer.finish, answer.failure) == (
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
    assert answered(parts, caller).choices[0].text == "".join(caller.texts) == "a?b"


def test_an_answer_cannot_be_made_by_hand_and_shows_no_text(parts: Parts) -> None:
    answer = answered(parts, ListeningCaller())
    assert "world" not in repr(answer)
    with pytest.raises(VerificationFailed, match="generate only"):
        Answer(answer.head, answer.choices, 1, 0, None, None, Maker())  # type: ignore[arg-type]


def test_the_choices_of_a_request_are_made_side_by_side_and_the_prompt_counts_once(parts: Parts) -> None:
    parts.generator.each = (["a", "b"], ["c"], ["d", "e", "f"])
    parts.generator.slots, parts.generator.pause_s = 3, 0.001
    caller = ListeningCaller()
    answer = answered(parts, caller, n=3, sampling=Sampling(0, seed=2**63 - 2))
    assert [choice.text for choice in answer.choices] == ["ab", "c", "def"]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert answer.completion_tokens == 6
    assert parts.budget.used == len(parts.generator.seen[0].prompt) + 6
    assert parts.generator.most_running == 3
    assert [job.sampling.seed for job in parts.generator.seen] == [2**63 - 2, 2**63 - 1, -(2**63)]
    for index, text in enumerate(["ab", "c", "def"]):
        assert "".join(delta.text for delta in caller.deltas if delta.index == index) == text


def test_what_comes_at_one_moment_is_handed_over_at_once(parts: Parts) -> None:
    parts.generator = ScriptedGenerator(pieces=["x"] * 3, pause_s=0.02, slots=4)
    caller = ListeningCaller()
    answered(parts, caller, n=4)
    assert caller.texts == ["xxxx"] * 3


def test_a_stop_in_one_choice_leaves_the_others_alone(parts: Parts) -> None:
    parts.generator.each = (["a", "STOP", "b"], ["c", "d", "e"])
    answer = answered(parts, ListeningCaller(), n=2, stop=("STOP",))
    assert [(choice.text, choice.finish) for choice in answer.choices] == [("a", "stop"), ("cde", "stop")]


def test_one_policy_is_leased_for_all_choices_to_the_last(parts: Parts) -> None:
    parts.policies.others = [FixedPolicy(PolicyVersion(2), "policy-2")]
    leases: list[int] = []

    class Counting(ListeningCaller):
        async def deliver(self, head: Any, deltas: Any) -> None:
            leases.append(parts.policies.leases)

    answer = answered(parts, Counting(), n=2, model="tiny@2")
    assert set(leases) == {1}
    assert (answer.head.policy, answer.head.model) == (2, "tiny@2")
    assert {job.adapter for job in parts.generator.seen} == {"policy-2"}


def test_when_one_choice_fails_every_part_that_was_handed_over_is_kept(parts: Parts) -> None:
    parts.generator.failure = ModelError("The runtime failed")
    parts.generator.each = (["a", "b"], ["c", "d", "e"])
    answer = answered(parts, ListeningCaller(), n=2)
    assert answer.failure is parts.generator.failure
    assert {choice.finish for choice in answer.choices} == {"failed"}
    assert parts.budget.held == 0


def test_cached_tokens_are_those_of_the_choice_that_computed_the_prompt(parts: Parts) -> None:
    parts.generator.cached = 2
    assert answered(parts, ListeningCaller(), n=2).cached_tokens == 2
    assert answered(parts, ListeningCaller(), prompts=("a b", "c d")).cached_tokens == 4
