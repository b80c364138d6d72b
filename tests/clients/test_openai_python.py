"""The official Python client, its whole surface, against a device."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.fleet import Edge

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

QUESTION: Any = [{"role": "user", "content": "the quick brown fox"}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
SCHEMA_TOKENS = 500
"""A random model fills every gap of the JSON with all the white space that the grammar allows."""
PAINT: Any = {
    "type": "function",
    "function": {"name": "paint", "description": "Paint a wall.", "parameters": SCHEMA, "strict": True},
}


@pytest.fixture
def llm(device: Edge) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{device.url}/v1", api_key="local", max_retries=0)


def test_a_stream_says_the_same_as_the_whole_answer_and_counts_its_tokens(llm: openai.OpenAI) -> None:
    asked: Any = {"model": "tiny", "messages": QUESTION, "max_completion_tokens": 12, "temperature": 0}
    whole = llm.chat.completions.create(**asked)
    chunks = list(llm.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage is not None and whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens


def test_several_choices_of_one_seed_come_again(llm: openai.OpenAI) -> None:
    asked: Any = {"model": "tiny", "messages": QUESTION, "max_tokens": 8, "n": 3, "seed": 5}
    first, second = (llm.chat.completions.create(**asked) for _ in range(2))
    texts = [choice.message.content for choice in first.choices]
    assert [choice.index for choice in first.choices] == [0, 1, 2]
    assert texts == [choice.message.content for choice in second.choices]
    assert len(set(texts)) > 1


def test_logprobs_name_the_chosen_tokens_and_the_likeliest(llm: openai.OpenAI) -> None:
    answer = llm.chat.completions.create(
        model="tiny", messages=QUESTION, max_tokens=6, temperature=0, logprobs=True, top_logprobs=3
    )
    assert answer.choices[0].logprobs is not None and answer.usage is not None
    content = answer.choices[0].logprobs.content or []
    assert len(content) == answer.usage.completion_tokens
    for token in content:
        assert token.logprob <= 0
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].token == token.token, "greedy takes the likeliest"
    said = b"".join(bytes(token.bytes or b"") for token in content).decode("utf-8", "replace")
    assert said == answer.choices[0].message.content


def test_a_schema_is_kept_to(llm: openai.OpenAI) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "wall", "schema": SCHEMA, "strict": True}}
    for seed in range(3):
        answer = llm.chat.completions.create(
            model="tiny", messages=QUESTION, max_tokens=SCHEMA_TOKENS, seed=seed, response_format=form
        )
        assert json.loads(answer.choices[0].message.content or "")["colour"] in {"red", "blue"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_required_tool_is_called_with_arguments_that_fit(llm: openai.OpenAI, stream: bool) -> None:
    asked: Any = {
        "model": "tiny", "messages": QUESTION, "max_tokens": SCHEMA_TOKENS,
        "tools": [PAINT], "tool_choice": "required",
    }  # fmt: skip
    if stream:
        chunks = list(llm.chat.completions.create(**asked, stream=True))
        calls = [call for c in chunks if c.choices for call in c.choices[0].delta.tool_calls or ()]
        name = next(call.function.name for call in calls if call.function and call.function.name)
        arguments = "".join(call.function.arguments or "" for call in calls if call.function)
        finish = next(c.choices[0].finish_reason for c in reversed(chunks) if c.choices)
    else:
        answer = llm.chat.completions.create(**asked)
        called = answer.choices[0].message.tool_calls or []
        assert len(called) == 1
        call = called[0]
        assert call.type == "function"
        name, arguments = call.function.name, call.function.arguments
        finish = answer.choices[0].finish_reason
    assert name == "paint"
    assert json.loads(arguments)["colour"] in {"red", "blue"}
    assert finish == "tool_calls"


def test_embeddings_have_unit_length_and_tell_texts_apart(llm: openai.OpenAI) -> None:
    answer = llm.embeddings.create(model="tiny", input=["the quick brown fox", "a policy", "a policy"])
    first, second, third = (item.embedding for item in answer.data)
    assert sum(x * x for x in first) == pytest.approx(1, abs=1e-4)
    assert second == pytest.approx(third, abs=1e-5)
    assert first != pytest.approx(second, abs=1e-3)


def test_plain_completions_work(llm: openai.OpenAI) -> None:
    asked: Any = {"model": "tiny", "prompt": "the quick brown", "max_tokens": 8, "temperature": 0}
    whole = llm.completions.create(**asked)
    streamed = "".join(chunk.choices[0].text for chunk in llm.completions.create(**asked, stream=True))
    assert streamed == whole.choices[0].text


def test_the_models_are_listed(llm: openai.OpenAI) -> None:
    assert "tiny" in {model.id for model in llm.models.list()}


def test_errors_are_the_client_s_own_kinds(llm: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        llm.chat.completions.create(model="gpt-7", messages=QUESTION)
    with pytest.raises(openai.BadRequestError) as caught:
        llm.chat.completions.create(model="tiny", messages=QUESTION, extra_body={"mirostat": 2})
    assert caught.value.param == "mirostat"
    with pytest.raises(openai.BadRequestError) as caught:
        llm.chat.completions.create(model="tiny", messages=QUESTION, max_tokens=100_000)
    assert caught.value.param
