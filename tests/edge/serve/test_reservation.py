"""Budget is held before a token is made, and only what was used is charged."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from fedaigc.errors import BudgetExceeded, VerificationFailed
from fedaigc.token_budget import BudgetHold, TokenBudget
from fedaigc_edge.serve.policy_gate import Permit
from fedaigc_edge.serve.request import ContextTooLong, GenerationRequest
from fedaigc_edge.serve.reservation import Reservation, TokenMeter, reserve
from fedaigc_edge.step import Maker
from tests.edge.serve.scripted import Parts, request
from tests.edge.serve.scripted_generator import ScriptedGenerator


def reserved(
    parts: Parts, budget: TokenBudget, generator: ScriptedGenerator, **changes: Any
) -> tuple[int, int]:
    async def scenario() -> tuple[int, int]:
        permit = await parts.gate.admit(request("one two three", **changes))
        async with reserve(permit, budget, generator) as reservation:
            reservation.meter.used = 9
            assert budget.held == reservation.prompt_tokens + reservation.max_tokens
            return reservation.prompt_tokens, reservation.max_tokens

    return asyncio.run(scenario())


def budget(capacity: int = 10_000) -> TokenBudget:
    return TokenBudget(capacity, 60, lambda: 0.0)


def test_prompt_and_longest_answer_are_held_and_the_use_is_charged(parts: Parts) -> None:
    tokens = budget()
    assert reserved(parts, tokens, ScriptedGenerator(), max_tokens=20) == (6, 20)
    assert (tokens.used, tokens.held) == (9, 0)


def test_without_a_limit_the_default_or_the_rest_of_the_context_is_held(parts: Parts) -> None:
    assert reserved(parts, budget(), ScriptedGenerator())[1] == 512
    assert reserved(parts, budget(), ScriptedGenerator(context_length=100))[1] == 94


@pytest.mark.parametrize(("context", "max_tokens", "field"), [(6, None, "messages"), (10, 5, "max_tokens")])
def test_what_does_not_fit_the_context_is_refused_and_nothing_held(
    parts: Parts, context: int, max_tokens: int | None, field: str
) -> None:
    tokens = budget()
    with pytest.raises(ContextTooLong) as caught:
        reserved(parts, tokens, ScriptedGenerator(context_length=context), max_tokens=max_tokens)
    assert caught.value.field == field
    assert tokens.held == 0


def test_an_exhausted_budget_refuses(parts: Parts) -> None:
    tokens = budget(30)
    tokens.reserve(10)
    with pytest.raises(BudgetExceeded):
        reserved(parts, tokens, ScriptedGenerator(), max_tokens=20)


def test_a_failing_generation_is_charged_what_it_used(parts: Parts) -> None:
    tokens = budget()

    async def scenario() -> None:
        permit = await parts.gate.admit(request("one"))
        with contextlib.suppress(ZeroDivisionError):
            async with reserve(permit, tokens, ScriptedGenerator()) as reservation:
                reservation.meter.used = 5
                raise ZeroDivisionError

    asyncio.run(scenario())
    assert (tokens.used, tokens.held) == (5, 0)


def test_a_reservation_cannot_be_made_by_hand(parts: Parts) -> None:
    permit: Permit[GenerationRequest] = asyncio.run(parts.gate.admit(request()))
    with pytest.raises(VerificationFailed, match="reserve only"):
        Reservation(permit, BudgetHold(1, 1), (), 1, TokenMeter(), Maker())  # type: ignore[arg-type]
