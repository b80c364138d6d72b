"""Hold token budget for a permitted request before it is generated, and give back what it did not use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import InitVar, dataclass, field

from fedaigc.token_budget import BudgetHold, TokenBudget
from fedaigc_edge.serve.policy_gate import Permit
from fedaigc_edge.serve.prompt_tokens import PromptEncoder, prompt_tokens
from fedaigc_edge.serve.request import ContextTooLong, GenerationRequest
from fedaigc_edge.serve.stage_clock import StageClock
from fedaigc_edge.step import Maker, made_only_by

DEFAULT_MAX_TOKENS = 512
"""Completion tokens of a request that names no limit, if the context has room for them."""
OFF_LOOP_CHARACTERS = 4096
"""A longer prompt is tokenised in a thread; below that the hop to a thread costs more than the work."""


class _Budget(Maker):
    """Held by this module alone."""


_BUDGET = _Budget()


@dataclass
class TokenMeter:
    """What a reservation has used so far, tokens; generation counts here, settling reads it."""

    used: int = 0


@dataclass(frozen=True)
class Reservation:
    """A permitted request with its budget held and its prompts encoded. Made by `reserve` only."""

    permit: Permit[GenerationRequest]
    hold: BudgetHold
    prompts: tuple[tuple[int, ...], ...] = field(repr=False)
    """At least one; each gets the request's `choices`."""
    max_tokens: int
    """Completion tokens that each choice may have, at least 1."""
    meter: TokenMeter
    maker: InitVar[_Budget]

    def __post_init__(self, maker: _Budget) -> None:
        made_only_by(maker, _BUDGET, "reserve")

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts; a prompt with several choices counts once."""
        return sum(map(len, self.prompts))


@contextlib.asynccontextmanager
async def reserve(
    permit: Permit[GenerationRequest],
    budget: TokenBudget,
    encoder: PromptEncoder,
    clock: StageClock | None = None,
    default_max_tokens: int = DEFAULT_MAX_TOKENS,
) -> AsyncIterator[Reservation]:
    """Hold each prompt once and the longest completion of every choice while the block runs; then settle
    with what the meter says.

    Raises ContextTooLong, BudgetExceeded or RequestInvalid, and then holds nothing.
    """
    request = permit.request
    clock = clock or StageClock()
    with clock.stage("tokenise"):
        prompts = await _encoded(request, encoder)
    with clock.stage("budget"):
        longest = max(map(len, prompts))
        max_tokens = _room(request, longest, encoder.context_length, default_max_tokens)
        choices = len(prompts) * request.choices
        hold = budget.reserve(sum(map(len, prompts)) + choices * max_tokens)
    meter = TokenMeter()
    try:
        yield Reservation(permit, hold, prompts, max_tokens, meter, _BUDGET)
    finally:
        with clock.stage("budget"):
            budget.settle(hold, meter.used)


async def _encoded(request: GenerationRequest, encoder: PromptEncoder) -> tuple[tuple[int, ...], ...]:
    characters = sum(map(len, request.texts(lambda _: b" ")))
    if characters > OFF_LOOP_CHARACTERS:
        return await asyncio.to_thread(prompt_tokens, request, encoder)
    return prompt_tokens(request, encoder)


def _room(request: GenerationRequest, longest: int, context: int, default: int) -> int:
    room = context - longest
    wanted = request.max_tokens
    if room < 1 or (wanted is not None and wanted > room):
        too_long = "messages" if request.messages else "prompt"
        raise ContextTooLong(
            f"This model's context is {context} tokens, and the request needs more",
            f"{longest} tokens in the {too_long}, {wanted or 1} for the answer",
            f"shorten the {too_long} or lower max_tokens",
            field=too_long if room < 1 else "max_tokens",
        )
    return wanted if wanted is not None else min(room, default)
