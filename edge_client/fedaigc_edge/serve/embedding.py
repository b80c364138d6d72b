"""Vectors of permitted texts under the token budget."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc.identifiers import PolicyVersion
from fedaigc.token_budget import TokenBudget
from fedaigc_edge.engine.generator import Generator
from fedaigc_edge.serve.policy_gate import Permit
from fedaigc_edge.serve.prompt_tokens import input_tokens
from fedaigc_edge.serve.request import ContextTooLong, EmbeddingRequest
from fedaigc_edge.serve.reservation import OFF_LOOP_CHARACTERS
from fedaigc_edge.serve.served_model import ServedModel

BASE = PolicyVersion(0)
AT_ONE_TIME = 8
"""Inputs that are read together; other callers get their turn between."""


@dataclass(frozen=True)
class Embedding:
    """Mean last hidden states of unit length, (inputs, hidden), and the tokens that were read."""

    vectors: FloatArray = field(repr=False)
    tokens: int
    model: str


async def embed(
    permit: Permit[EmbeddingRequest], budget: TokenBudget, generator: Generator, model: ServedModel
) -> Embedding:
    """Read every input with the base model, whose vectors stay comparable whatever policy is in force.

    Raises UnknownModel for any other version, ContextTooLong, BudgetExceeded, RequestInvalid or ModelError.
    """
    request = permit.request
    model.pinned(request.model, (BASE,))
    if sum(map(len, request.inputs)) > OFF_LOOP_CHARACTERS:
        inputs = await asyncio.to_thread(input_tokens, request, generator)
    else:
        inputs = input_tokens(request, generator)
    longest = max(map(len, inputs))
    if longest > generator.context_length:
        raise ContextTooLong(
            f"This model's context is {generator.context_length} tokens, and an input needs more",
            f"{longest} tokens in the longest input",
            "shorten it",
            field="input",
        )
    tokens = sum(map(len, inputs))
    hold = budget.reserve(tokens)
    used = 0
    try:
        blocks = []
        # A few at a time: together they might be more than may wait in the engine's line.
        for start in range(0, len(inputs), AT_ONE_TIME):
            block = inputs[start : start + AT_ONE_TIME]
            blocks.append(await generator.embed(block))
            used += sum(map(len, block))
    finally:
        budget.settle(hold, used)
    return Embedding(np.concatenate(blocks), tokens, model.versioned(BASE))
