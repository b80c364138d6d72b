"""Both routes by OpenAI's own program, over a real socket: what each field does, end to end."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from fedaigc.errors import RequestInvalid
from fedaigc.identifiers import PolicyVersion
from fedaigc.reward_head import RewardHead
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.serve.dialects import CHAT, COMPLETIONS
from fedaigc_edge.serve.stage_clock import STAGES
from tests.edge.serve.scripted import FixedPolicy, Parts, RunningApi
from tests.edge.serve.test_tool_grammar import allowed

MESSAGES: Any = [{"role": "user", "content": "say hello"}]
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]
CALL = '{"name": "get_weather", "arguments": {"city": "Köln"}}'


def test_each_route_has_its_own_names() -> None:
    assert CHAT.new_id().startswith("chatcmpl-")
    assert COMPLETIONS.new_id().startswith("cmpl-")


def test_completions_are_whole_streamed_and_of_several_prompts(caller: openai.OpenAI) -> None:
    whole = caller.completions.create(model="tiny", prompt=["a", "b"], n=2, max_tokens=9)
    assert [(choice.index, choice.text) for choice in whole.choices] == [
        (index, "Hello, world!") for index in range(4)
    ]
    assert whole.id.startswith("cmpl-")
    stream = caller.completions.create(model="tiny", prompt=[1, 2], stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == "Hello, world!"


def test_choices_are_streamed_side_by_side(caller: openai.OpenAI, parts: Parts) -> None:
    parts.generator.each = (["a", "é"], ["b"], ["c", "绝", "d"])
    texts = {0: "", 1: "", 2: ""}
    for chunk in caller.chat.completions.create(model="tiny", messages=MESSAGES, n=3, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == {0: "aé", 1: "b", 2: "c绝d"}
    assert parts.outbox.counts().sealed == 3


def test_every_way_of_sampling_reaches_the_engine(caller: openai.OpenAI, parts: Parts) -> None:
    caller.chat.completions.create(
        model="tiny", messages=MESSAGES, temperature=0.5, top_p=0.9, seed=7, presence_penalty=1,
        frequency_penalty=-1, logit_bias={"5": -100}, logprobs=True, top_logprobs=3, max_completion_tokens=9,
        extra_body={"top_k": 4, "min_p": 0.1, "repetition_penalty": 1.2},
    )  # fmt: skip
    assert parts.generator.seen[0].sampling == Sampling(
        max_tokens=9, temperature=0.5, top_p=0.9, top_k=4, min_p=0.1, presence_penalty=1.0,
        frequency_penalty=-1.0, repetition_penalty=1.2, logit_bias={5: -100.0}, seed=7, logprobs=3,
    )  # fmt: skip


def test_logprobs_have_the_bytes_of_each_token(caller: openai.OpenAI, parts: Parts) -> None:
    parts.generator.pieces = ["a", b"\xf0\x9f", b"\x99\x82"]
    answer = caller.chat.completions.create(model="tiny", messages=MESSAGES, logprobs=True, top_logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert b"".join(bytes(token.bytes or []) for token in logprobs.content).decode() == "a🙂"
    assert [len(token.top_logprobs) for token in logprobs.content] == [2, 2, 2]


@pytest.mark.parametrize("stream", [True, False])
def test_a_demanded_call_is_made_and_its_result_taken_back(
    caller: openai.OpenAI, parts: Parts, stream: bool
) -> None:
    parts.generator.pieces = list(CALL)
    create: Any = caller.chat.completions.create
    answer = create(model="tiny", messages=MESSAGES, tools=TOOLS, tool_choice="required", stream=stream)
    if stream:
        deltas = [chunk.choices[0].delta for chunk in answer]
        calls = [call for delta in deltas for call in delta.tool_calls or []]
        call_id, arguments = calls[0].id, "".join(call.function.arguments for call in calls)
        assert [call.function.name for call in calls if call.function.name] == ["get_weather"]
    else:
        (call,) = answer.choices[0].message.tool_calls
        call_id, arguments = call.id, call.function.arguments
        assert answer.choices[0].finish_reason == "tool_calls"
    assert json.loads(arguments) == {"city": "Köln"}
    grammar = parts.generator.seen[0].grammar
    assert grammar is not None
    assert allowed(grammar, CALL)
    assert "get_weather" in parts.generator.templated[0][0][0]["content"]
    parts.generator.pieces = ["Rain."]
    function = {"name": "get_weather", "arguments": arguments}
    history = [
        *MESSAGES,
        {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call_id, "content": "rain"},
    ]
    again = create(model="tiny", messages=history, tools=TOOLS, parallel_tool_calls=False)
    assert again.choices[0].message.content == "Rain."
    assert again.choices[0].message.tool_calls is None


def test_a_schema_is_given_to_the_engine_and_one_it_cannot_use_is_refused_by_name(
    caller: openai.OpenAI, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    form: Any = {
        "type": "json_schema",
        "json_schema": {"name": "s", "schema": {"type": "object"}, "strict": True},
    }
    caller.chat.completions.create(model="tiny", messages=MESSAGES, response_format=form)
    grammar = parts.generator.seen[0].grammar
    assert grammar is not None
    assert json.loads(grammar.text)["type"] == "object"

    def refuse(jobs: Any) -> Any:
        raise RequestInvalid("It cannot be compiled", field="response_format")

    monkeypatch.setattr(parts.generator, "start", refuse)
    for fields, param in (({"response_format": form}, "response_format"), ({"tools": TOOLS}, "tools")):
        with pytest.raises(openai.BadRequestError) as caught:
            caller.chat.completions.create(model="tiny", messages=MESSAGES, **fields)
        assert caught.value.param == param
    assert parts.budget.held == 0


def test_the_best_of_several_is_told_with_its_scores(caller: openai.OpenAI, parts: Parts) -> None:
    head = RewardHead(np.array([1.0, -2.0], dtype=np.float32), 1, "ab" * 32)
    parts.policies.current = FixedPolicy(PolicyVersion(3), "policy-3", head)
    parts.generator.each = (["a"], ["b"])
    parts.generator.hidden = [np.array(row, dtype=np.float32) for row in ((0, 1), (5, 0))]
    answer: Any = caller.chat.completions.create(model="tiny", messages=MESSAGES, extra_body={"best_of": 2})
    assert answer.choices[0].message.content == "b"
    assert (answer.fedaigc["scores"], answer.fedaigc["head_policy"]) == ([-2.0, 5.0], 3)


def test_a_version_that_is_resident_is_served_by_name(caller: openai.OpenAI, parts: Parts) -> None:
    parts.policies.others = [FixedPolicy(PolicyVersion(2), "policy-2")]
    assert [model.id for model in caller.models.list()] == ["tiny", "tiny@2", "tiny@3"]
    answer = caller.chat.completions.create(model="tiny@2", messages=MESSAGES)
    assert answer.model == "tiny@2"
    assert parts.generator.seen[0].adapter == "policy-2"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("stream", [True, False])
def test_stage_times_are_told_to_who_asks_and_sum_to_the_total(
    api: RunningApi, path: str, stream: bool
) -> None:
    asked = {"messages": MESSAGES} if "chat" in path else {"prompt": "a"}
    body = {"model": "tiny", "stream": stream, **asked}
    answer = httpx.post(api.url + path, json=body, headers={"x-fedaigc-timings": "1"})
    lines = [line for line in answer.text.split("\n\n") if "timings_ms" in line]
    told = json.loads(lines[0].removeprefix("data: "))["fedaigc"]["timings_ms"]
    assert list(told) == [*STAGES, "total"]
    assert min(told.values()) >= 0
    assert sum(told[name] for name in STAGES) == pytest.approx(told["total"], abs=1e-5)
    assert told["decode"] > 0 and told["outbox"] > 0 and told["fingerprint"] > 0
    assert "timings_ms" not in httpx.post(api.url + path, json=body).text


def test_feedback_waits_until_the_answer_it_is_about_is_remembered(api: RunningApi, parts: Parts) -> None:
    for _ in range(5):
        name = httpx.post(
            api.url + "/v1/chat/completions", json={"model": "tiny", "messages": MESSAGES}
        ).json()["id"]
        httpx.post(api.url + "/v1/feedback", json={"request_id": name, "rating": "up"})
        assert parts.remembered[-1][0] == name


@pytest.mark.parametrize(
    ("path", "field"),
    [("/v1/chat/completions", "messages"), ("/v1/completions", "prompt"), ("/v1/embeddings", "input")],
)
def test_a_denial_names_the_field_that_was_judged(api: RunningApi, path: str, field: str) -> None:
    text: Any = "a forbidden apple"
    body = {"model": "tiny", field: [{"role": "user", "content": text}] if field == "messages" else text}
    assert httpx.post(api.url + path, json=body).json()["error"]["param"] == field
