"""Vectors are made of permitted texts, under the budget, by the base model."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest

from fedaigc.errors import BudgetExceeded, Denied, FedaigcError, ModelError, RequestInvalid
from fedaigc.identifiers import RequestId
from fedaigc.token_budget import TokenBudget
from fedaigc_edge.serve.embedding import Embedding
from fedaigc_edge.serve.request import ContextTooLong, EmbeddingRequest, UnknownModel
from tests.edge.serve.scripted import Parts
from tests.edge.serve.scripted_generator import FIRST_TOKEN


def embedded(parts: Parts, *inputs: Any, model: str = "tiny") -> Embedding:
    async def scenario() -> Embedding:
        return await parts.pipeline().embed(EmbeddingRequest(RequestId("embd-1"), model, inputs))

    return asyncio.run(scenario())


def test_each_input_has_a_vector_of_unit_length_and_its_tokens_are_charged(parts: Parts) -> None:
    made = embedded(parts, "a b", (5, 6, 7))
    assert made.vectors.shape == (2, 3)
    assert np.linalg.norm(made.vectors, axis=1) == pytest.approx(1.0)
    assert (made.tokens, made.model) == (6, "tiny@0")
    assert (parts.budget.used, parts.budget.held) == (6, 0)
    assert parts.metrics.prompt_tokens == 6
    assert parts.outbox.counts().sealed == 0


@pytest.mark.parametrize("model", ["tiny@0", "tiny"])
def test_the_base_model_makes_them_whatever_policy_is_in_force(parts: Parts, model: str) -> None:
    assert embedded(parts, "a", model=model).model == "tiny@0"


@pytest.mark.parametrize(
    ("inputs", "model", "error"),
    [
        (("a",), "tiny@3", UnknownModel),
        (("a",), "gpt-4o", UnknownModel),
        (("a forbidden apple",), "tiny", Denied),
        (("w " * 3000,), "tiny", ContextTooLong),
        (((50_000,),), "tiny", RequestInvalid),
        (((),), "tiny", RequestInvalid),
    ],
)
def test_what_may_not_be_read_is_refused_and_charged_nothing(
    parts: Parts, inputs: tuple[Any, ...], model: str, error: type[FedaigcError]
) -> None:
    with pytest.raises(error):
        embedded(parts, *inputs, model=model)
    assert (parts.budget.used, parts.budget.held) == (0, 0)
    assert sum(parts.metrics.requests.values()) == 1


def test_words_hidden_in_token_ids_are_judged(parts: Parts) -> None:
    parts.generator.pieces = ["a forbidden", " apple"]
    with pytest.raises(Denied):
        embedded(parts, (FIRST_TOKEN, FIRST_TOKEN + 1))


def test_many_inputs_are_read_a_few_at_a_time(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    read = parts.generator.embed

    async def counting(prompts: Any) -> Any:
        sizes.append(len(prompts))
        return await read(prompts)

    monkeypatch.setattr(parts.generator, "embed", counting)
    made = embedded(parts, *("w " * number for number in range(1, 20)))
    assert made.vectors.shape == (19, 3)
    assert np.argsort(made.vectors[:, 0]).tolist() == list(range(19))
    assert max(sizes) <= 8
    assert sum(sizes) == 19


def test_what_was_read_before_a_failure_is_charged(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    read = parts.generator.embed

    async def fail_later(prompts: Any) -> Any:
        monkeypatch.setattr(parts.generator, "embed", failing)
        return await read(prompts)

    async def failing(prompts: Any) -> Any:
        raise ModelError("broken")

    monkeypatch.setattr(parts.generator, "embed", fail_later)
    with pytest.raises(ModelError):
        embedded(parts, *["a"] * 9)
    assert (parts.budget.used, parts.budget.held) == (16, 0)


def test_an_exhausted_budget_refuses(parts: Parts) -> None:
    parts.budget = TokenBudget(5, 3600, time.monotonic)
    embedded(parts, "a b c")
    with pytest.raises(BudgetExceeded):
        embedded(parts, "a b")


def test_a_model_that_fails_is_charged_nothing(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(prompts: Any) -> Any:
        raise ModelError("broken")

    monkeypatch.setattr(parts.generator, "embed", fail)
    with pytest.raises(ModelError):
        embedded(parts, "a")
    assert (parts.budget.used, parts.budget.held) == (0, 0)
