"""Hold token budget for a permitted request before it is generated, and give back what it did not use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Protocol

from fedaigc.token_budget import BudgetHold, TokenBudget
from fedaigc_edge.serve.policy_gate import Permit
from fedaigc_edge.serve.request import ChatMessage, ContextTooLong
from fedaigc_edge.step import Maker, made_only_by

DEFAULT_MAX_TOKENS = 512
"""Completion tokens of a request that names no limit, if the context has room for them."""


class PromptEncoder(Protocol):
    """The part of a Generator that reserving needs."""

    context_length: int

    def encode_chat(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The prompt's tokens under the model's chat template."""
        ...


class _Budget(Maker):
    """Held by this module alone."""


_BUDGET = _Budget()


@dataclass
class TokenMeter:
    """What a reservation has used so far, tokens; generation counts here, settling reads it."""

    used: int = 0


@dataclass(frozen=True)
class Reservation:
    """A permitted request with its budget held and its prompt encoded. Made by `reserve` only."""

    permit: Permit
    hold: BudgetHold
    prompt: tuple[int, ...] = field(repr=False)
    max_tokens: int
    """Completion tokens it may have, at least 1."""
    meter: TokenMeter
    maker: InitVar[_Budget]

    def __post_init__(self, maker: _Budget) -> None:
        made_only_by(maker, _BUDGET, "reserve")


@contextlib.asynccontextmanager
async def reserve(
    permit: Permit, budget: TokenBudget, encoder: PromptEncoder, default_max_tokens: int = DEFAULT_MAX_TOKENS
) -> AsyncIterator[Reservation]:
    """Hold prompt and longest completion while the block runs; then settle with what the meter says.

    Raises ContextTooLong, BudgetExceeded or RequestInvalid, and then holds nothing.
    """
    prompt = await asyncio.to_thread(encoder.encode_chat, permit.request.messages)
    room = encoder.context_length - len(prompt)
    wanted = permit.request.max_tokens
    if room < 1 or (wanted is not None and wanted > room):
        raise ContextTooLong(
            f"This model's context is {encoder.context_length} tokens, and the request needs more",
            f"{len(prompt)} tokens in the messages, {wanted or 1} for the answer",
            "shorten the messages or lower max_tokens",
            field="messages" if room < 1 else "max_tokens",
        )
    max_tokens = wanted if wanted is not None else min(room, default_max_tokens)
    hold = budget.reserve(len(prompt) + max_tokens)
    meter = TokenMeter()
    try:
        yield Reservation(permit, hold, tuple(prompt), max_tokens, meter, _BUDGET)
    finally:
        budget.settle(hold, meter.used)
