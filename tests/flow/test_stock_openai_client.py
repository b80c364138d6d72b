"""The stock OpenAI client, unmodified, against a device with the real model."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.fleet import MODEL, Edge

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

QUESTION: Any = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture
def llm(edges: list[Edge]) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{edges[0].url}/v1", api_key="local", max_retries=0)


def test_streamed_and_whole_answers_are_the_same(llm: openai.OpenAI) -> None:
    whole = llm.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=24, temperature=0)
    chunks = list(
        llm.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=24, temperature=0, stream=True,
            stream_options={"include_usage": True},
        )
    )  # fmt: skip
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.strip()
    assert text == whole.choices[0].message.content
    first, second = whole.usage, chunks[-1].usage
    assert first is not None and second is not None
    assert (first.prompt_tokens, first.completion_tokens) == (second.prompt_tokens, second.completion_tokens)
    assert first.prompt_tokens_details is not None and second.prompt_tokens_details is not None
    # The second time the prompt is there already, all but its last two tokens.
    assert second.prompt_tokens_details.cached_tokens == second.prompt_tokens - 2
    assert {chunk.choices[0].finish_reason for chunk in chunks if chunk.choices} >= {
        whole.choices[0].finish_reason
    }


def test_the_models_are_listed(llm: openai.OpenAI) -> None:
    assert MODEL in {model.id for model in llm.models.list()}


@pytest.mark.parametrize(
    "fields",
    [
        {"audio": {"voice": "alloy", "format": "wav"}},
        {"functions": [{"name": "f"}]},
        {"reasoning_effort": "high"},
        {"n": 17},
        {"logit_bias": {"1": 500}},
        {"response_format": {"type": "grammar"}},
        {"extra_body": {"mirostat": 2}},
    ],
)
def test_a_field_that_would_change_the_output_is_refused_and_named(
    llm: openai.OpenAI, fields: dict[str, Any]
) -> None:
    name = next(iter(fields.get("extra_body", fields)))
    with pytest.raises(openai.BadRequestError) as caught:
        llm.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=4, **fields)
    assert caught.value.param == name
    assert isinstance(caught.value.body, dict)
    assert set(caught.value.body) >= {"message", "type", "param", "code"}


def test_an_unknown_model_is_not_found(llm: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        llm.chat.completions.create(model="gpt-7", messages=QUESTION)
