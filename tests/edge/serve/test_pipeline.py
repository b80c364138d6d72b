"""The whole way of a request, without HTTP."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedaigc.errors import (
    BudgetExceeded,
    Busy,
    Denied,
    FedaigcError,
    LedgerError,
    ModelError,
    RequestInvalid,
    StorageError,
)
from fedaigc.fingerprint import fingerprint_text
from fedaigc.token_budget import TokenBudget
from fedaigc_edge.serve.request import ChatMessage, ToolCall, ToolUse, UnknownModel
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from fedaigc_edge.serve.stage_clock import StageClock
from tests.edge.serve.scripted import ListeningCaller, Parts, request
from tests.edge.serve.scripted_generator import FIRST_TOKEN, ScriptedGenerator


def served(parts: Parts, caller: ListeningCaller | None = None, **changes: Any) -> SealedAnswer:
    async def scenario() -> SealedAnswer:
        pipeline = parts.pipeline()
        try:
            return await pipeline.serve(request(**changes), caller or ListeningCaller())
        finally:
            await pipeline.remembered()

    return asyncio.run(scenario())


@pytest.mark.parametrize("streams", [True, False])
def test_an_answer_is_gated_budgeted_generated_sealed_and_remembered(parts: Parts, streams: bool) -> None:
    sealed = served(parts, ListeningCaller(streams))
    assert sealed.answer.choices[0].text == "Hello, world!"
    assert sealed.evidence[0].seq == parts.outbox.counts().sealed == 1
    ((request_id, messages, text, commitment),) = parts.remembered
    assert (request_id, text, commitment) == (
        sealed.evidence[0].output.request,
        "Hello, world!",
        sealed.evidence[0].commitment,
    )
    assert [message.role for message in messages] == ["system", "user"]
    assert parts.metrics.requests["ok"] == 1
    assert parts.metrics.completion_tokens == 4


@pytest.mark.parametrize("streams", [True, False])
def test_a_denied_request_reaches_neither_budget_nor_model(parts: Parts, streams: bool) -> None:
    with pytest.raises(Denied):
        served(parts, ListeningCaller(streams), content="a forbidden apple")
    assert parts.generator.seen == []
    assert parts.outbox.counts().sealed == 0
    assert parts.metrics.denials == {"no-apples": 1}


def test_an_unknown_model_is_refused_first(parts: Parts) -> None:
    with pytest.raises(UnknownModel):
        served(parts, model="gpt-4o")


def test_an_exhausted_budget_refuses_and_refills_nothing_by_failing(parts: Parts) -> None:
    parts.budget = TokenBudget(40, 3600, time.monotonic)
    served(parts, max_tokens=20)
    used = parts.budget.used
    with pytest.raises(BudgetExceeded):
        served(parts, max_tokens=30)
    assert parts.budget.used == used


def test_when_every_place_is_taken_busy_is_said(parts: Parts) -> None:
    parts.generator = ScriptedGenerator(pieces=["x"] * 20, pause_s=0.02, slots=1, waiting=1)

    async def scenario() -> None:
        pipeline = parts.pipeline()
        tasks = [asyncio.create_task(pipeline.serve(request(), ListeningCaller())) for _ in range(4)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(result, Busy) for result in results) == 2
        assert sum(isinstance(result, SealedAnswer) for result in results) == 2

    asyncio.run(scenario())
    assert parts.generator.most_running == 1
    assert parts.budget.held == 0


def test_what_a_leaving_caller_was_given_is_sealed(parts: Parts) -> None:
    parts.generator = ScriptedGenerator(pieces=["word "] * 100, pause_s=0.005)
    sealed = served(parts, ListeningCaller(leave_after=2))
    assert (sealed.answer.choices[0].text, sealed.evidence[0].record["finish"]) == ("word word ", "cancelled")
    assert parts.metrics.requests["cancelled"] == 1


def test_what_a_failing_stream_had_handed_over_is_sealed_and_the_failure_raised(parts: Parts) -> None:
    parts.generator.failure = ModelError("The runtime failed")
    with pytest.raises(ModelError):
        served(parts)
    (pending,) = parts.outbox.pending(5, 1 << 20)
    assert pending.raw == fingerprint_text("Hello, world!").raw
    assert parts.metrics.requests["error"] == 1
    assert parts.remembered == []


def test_an_answer_that_cannot_be_sealed_fails_and_the_next_is_not_even_generated(parts: Parts) -> None:
    make_room = parts.fill_disk()

    async def scenario() -> None:
        pipeline = parts.pipeline()
        with pytest.raises(StorageError, match="disk is full"):
            await pipeline.serve(request(), ListeningCaller())
        with pytest.raises(StorageError):
            await pipeline.serve(request(), ListeningCaller())
        assert len(parts.generator.seen) == 1
        make_room()
        sealed = await pipeline.serve(request(), ListeningCaller())
        assert sealed.evidence[0].seq == 1
        await pipeline.end()

    asyncio.run(scenario())
    assert len(parts.remembered) == 1


def test_an_answer_that_cannot_be_remembered_is_still_an_answer(parts: Parts) -> None:
    parts.remember_failure = LedgerError("no")
    assert served(parts).evidence[0].seq == 1


def test_the_loop_is_never_held_up_by_generation_or_seal(parts: Parts) -> None:
    parts.generator = ScriptedGenerator(pieces=["x"] * 20, pause_s=0.01)
    late: list[float] = []

    async def heartbeat() -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(0.002)
            late.append(time.perf_counter() - started - 0.002)

    async def scenario() -> None:
        pipeline = parts.pipeline()
        beating = asyncio.create_task(heartbeat())
        await asyncio.gather(*(pipeline.serve(request(), ListeningCaller()) for _ in range(6)))
        beating.cancel()

    asyncio.run(scenario())
    assert sorted(late)[int(len(late) * 0.9)] < 0.02


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=st.text(st.characters(codec="utf-8"), min_size=12, max_size=40), outcome=st.integers(0, 3))
def test_no_word_of_prompt_or_answer_is_in_any_log_error_or_metric(
    parts: Parts, caplog: pytest.LogCaptureFixture, secret: str, outcome: int
) -> None:
    prompt = secret if outcome != 1 else f"forbidden apple {secret}"
    failure = ModelError("The runtime failed") if outcome == 2 else None
    parts.generator = ScriptedGenerator(pieces=[secret[:6], secret[6:]], failure=failure)
    model = "tiny" if outcome != 3 else secret
    caplog.clear()
    said = ""
    with caplog.at_level(logging.DEBUG):
        try:
            sealed = served(parts, messages=(ChatMessage("user", prompt),), model=model)
            said += repr(sealed)
        except FedaigcError as error:
            said += str(error) + repr(error) + str(error.as_json())
    said += caplog.text + parts.metrics.text({})
    assert secret not in said
    assert threading.active_count() < 50


def test_every_choice_is_sealed_in_one_commit_and_remembered_under_its_own_name(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    commit = parts.outbox._writer._commit

    def counting(group: list[Any]) -> None:
        groups.append(len(group))
        commit(group)

    monkeypatch.setattr(parts.outbox._writer, "_commit", counting)
    parts.generator.each = (["a"], ["b", "c"], [])
    sealed = served(parts, n=3)
    name = sealed.answer.head.reservation.permit.request.id
    names = [name, f"{name}-1", f"{name}-2"]
    assert [item.output.request for item in sealed.evidence] == names
    assert [item.output.text for item in sealed.evidence] == ["a", "bc", ""]
    assert [item.fingerprint.raw for item in sealed.evidence] == [
        fingerprint_text(text).raw for text in ("a", "bc", "")
    ]
    assert [kept[0] for kept in parts.remembered] == names
    assert sum(groups) == 3
    # The writer may have begun with the first before the others came.
    assert len(groups) <= 2


def test_only_choices_that_reached_a_leaving_caller_are_sealed(parts: Parts) -> None:
    parts.generator = ScriptedGenerator(each=(["a"] * 50, [""] * 50), pause_s=0.005)
    sealed = served(parts, ListeningCaller(leave_after=2), n=2)
    assert [choice.index for choice in sealed.answer.choices] == [0]
    assert parts.outbox.counts().sealed == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"prompts": ("one", "a forbidden apple")},
        {"prompts": ((FIRST_TOKEN, FIRST_TOKEN + 1),)},
        {"shaping": ("forbidden apple",)},
        {
            "messages": (
                ChatMessage("user", "x"),
                ChatMessage("assistant", "", (ToolCall("c", "f", '{"a": "forbidden apple"}'),)),
            )
        },
        {"messages": (ChatMessage("tool", "forbidden apple", tool_call_id="c"),)},
    ],
)
def test_every_text_that_could_reach_or_shape_an_answer_is_judged(
    parts: Parts, changes: dict[str, Any]
) -> None:
    parts.generator.pieces = ["a forbidden", " apple"]
    with pytest.raises(Denied):
        served(parts, **changes)
    assert parts.generator.seen == []


def test_token_ids_that_the_model_does_not_have_are_refused_before_anything_else(parts: Parts) -> None:
    with pytest.raises(RequestInvalid) as caught:
        served(parts, prompts=((10**6,),))
    assert caught.value.field == "prompt"


def test_what_learning_has_no_form_for_is_not_remembered(parts: Parts) -> None:
    use = ToolUse(({"name": "f"},), ("f",), must_call=False)
    served(parts, prompts=("one",))
    served(parts, tools=use)
    served(parts, messages=(ChatMessage("user", "x"), ChatMessage("tool", "y", tool_call_id="c")))
    assert parts.remembered == []
    assert parts.outbox.counts().sealed == 3


@pytest.mark.parametrize("changes", [{}, {"n": 3}, {"best_of": 2}, {"stop": ("wor",)}])
def test_the_stages_of_an_answer_sum_to_its_whole_time(parts: Parts, changes: dict[str, Any]) -> None:
    parts.generator.pause_s = 0.002
    clock = StageClock()

    async def scenario() -> None:
        pipeline = parts.pipeline()
        await pipeline.serve(request(**changes), ListeningCaller(), clock)
        await pipeline.end()

    asyncio.run(scenario())
    times = clock.end()
    assert sum(times.stages.values()) == times.total_ns
    assert min(times.stages.values()) >= 0
    assert all(times.stages[name] > 0 for name in ("decode", "gate", "budget", "fingerprint", "outbox"))
    assert times.first_token_ns is not None
    assert 0 < times.first_token_ns < times.total_ns
