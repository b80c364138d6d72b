"""Chat completions byte by byte as OpenAI's published format has them, and an end only for what is sealed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.serve.chat_reply import ChatForm
from fedaigc_edge.serve.choice_text import Delta
from fedaigc_edge.serve.json_text import event
from fedaigc_edge.serve.request import GenerationRequest, ToolUse
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from fedaigc_edge.serve.stage_clock import STAGES, StageTimes
from tests.edge.serve.scripted import ListeningCaller, Parts, request

WEATHER = {"name": "get_weather", "parameters": {"type": "object"}}
MUST = ToolUse((WEATHER,), ("get_weather",), must_call=True)
MAY = ToolUse((WEATHER,), ("get_weather",), must_call=False)
CALL = '{"name": "get_weather", "arguments": {"city": "Köln"}}'
USAGE = {
    "prompt_tokens": 6,
    "completion_tokens": 4,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}


def sealed(parts: Parts, asked: GenerationRequest | None = None) -> SealedAnswer:
    async def scenario() -> SealedAnswer:
        pipeline = parts.pipeline()
        answer = await pipeline.serve(asked or request(), ListeningCaller())
        await pipeline.end()
        return answer

    return asyncio.run(scenario())


def values(events: bytes) -> list[Any]:
    lines = events.split(b"\n\n")
    assert lines.pop() == b""
    return [json.loads(line.removeprefix(b"data: ")) if b"[DONE]" not in line else "[DONE]" for line in lines]


def streamed(
    one: SealedAnswer, deltas: Sequence[Delta], include_usage: bool = False
) -> tuple[ChatForm, bytes]:
    asked = one.answer.head.reservation.permit.request
    form = ChatForm(asked, 1_796_000_000, include_usage)
    return form, form.opening(one.answer.head) + form.deltas(deltas) + form.ending(one, None)


def test_a_whole_answer_has_openais_fields(parts: Parts) -> None:
    one = sealed(parts)
    asked = one.answer.head.reservation.permit.request
    body = ChatForm(asked, 1_796_000_000, False).whole(one, None)
    assert list(body) == ["id", "object", "created", "model", "choices", "usage", "fedaigc"]
    assert (body["object"], body["created"], body["model"]) == ("chat.completion", 1_796_000_000, "tiny@3")
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello, world!", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert body["usage"] == USAGE
    assert body["fedaigc"] == {"request_id": body["id"], "policy_version": 3, "fingerprint_seq": 1}


def test_a_stream_is_byte_for_byte_the_published_format(parts: Parts) -> None:
    one = sealed(parts)
    name = one.answer.head.reservation.permit.request.id
    head = f'data: {{"id":"{name}","object":"chat.completion.chunk","created":1796000000,"model":"tiny@3",'
    tail = f'"fedaigc":{{"request_id":"{name}","policy_version":3,"fingerprint_seq":1}}'
    golden = (
        head + '"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},'
        '"logprobs":null,"finish_reason":null}]}\n\n'
        + head + '"choices":[{"index":0,"delta":{"content":"Hé"},"logprobs":null,"finish_reason":null}]}\n\n'
        + head + '"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],' + tail + "}\n\n"
        "data: [DONE]\n\n"
    )  # fmt: skip
    assert streamed(one, [Delta(0, "Hé")])[1] == golden.encode()


def test_usage_comes_in_a_chunk_of_its_own_without_choices_only_when_asked_for(parts: Parts) -> None:
    one = sealed(parts)
    first, _, last, usage, done = values(streamed(one, [Delta(0, "Hi")], include_usage=True)[1])
    assert (first["usage"], last["usage"]) == (None, None)
    assert (usage["choices"], usage["usage"]) == ([], USAGE)
    assert done == "[DONE]"
    assert all("usage" not in chunk for chunk in values(streamed(one, [])[1])[:-1])


def test_every_choice_has_its_role_its_text_and_its_end(parts: Parts) -> None:
    parts.generator.each = (["a", "b"], ["c"])
    one = sealed(parts, request(n=2))
    chunks = values(streamed(one, [Delta(1, "c"), Delta(0, "ab")])[1])[:-1]
    seen = [
        (c["choices"][0]["index"], c["choices"][0]["delta"], c["choices"][0]["finish_reason"]) for c in chunks
    ]
    role = {"role": "assistant", "content": "", "refusal": None}
    assert seen == [
        (0, role, None),
        (1, role, None),
        (1, {"content": "c"}, None),
        (0, {"content": "ab"}, None),
        (0, {}, "stop"),
        (1, {}, "stop"),
    ]
    name = one.answer.head.reservation.permit.request.id
    assert chunks[-1]["fedaigc"]["choices"] == [
        {"index": 0, "request_id": name, "fingerprint_seq": 1},
        {"index": 1, "request_id": f"{name}-1", "fingerprint_seq": 2},
    ]


def test_stage_times_are_told_in_milliseconds(parts: Parts) -> None:
    one = sealed(parts)
    times = StageTimes(dict.fromkeys(STAGES, 1_500_001), 9 * 1_500_001, None, None)
    told = ChatForm(request(), 5, False).whole(one, times)["fedaigc"]["timings_ms"]
    assert told["total"] == 13.500009
    assert round(sum(told[name] for name in STAGES), 6) == told["total"]


@pytest.mark.parametrize(("use", "text"), [(MUST, CALL), (MAY, f"Hm.<tool_call>\n{CALL}\n</tool_call>")])
def test_a_call_is_a_tool_call_and_its_arguments_are_the_models_own_text(
    parts: Parts, use: ToolUse, text: str
) -> None:
    parts.generator.pieces = list(text)
    one = sealed(parts, request(tools=use))
    asked = one.answer.head.reservation.permit.request
    (choice,) = ChatForm(asked, 5, False).whole(one, None)["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "get_weather", "arguments": '{"city": "Köln"}'}
    assert (call["type"], call["id"][:5]) == ("function", "call_")
    assert choice["message"]["content"] == (None if use.must_call else "Hm.")
    assert choice["finish_reason"] == "tool_calls"
    assert one.answer.choices[0].text == text


def test_a_streamed_call_is_byte_for_byte_the_published_format(parts: Parts) -> None:
    parts.generator.pieces = list(CALL)
    one = sealed(parts, request(tools=MUST))
    _, events = streamed(one, [Delta(0, CALL[:20]), Delta(0, CALL[20:40]), Delta(0, CALL[40:])])
    deltas = [chunk["choices"][0]["delta"] for chunk in values(events)[:-1]]
    call_id = deltas[1]["tool_calls"][0]["id"]
    assert deltas == [
        {"role": "assistant", "content": None, "refusal": None},
        {
            "tool_calls": [
                {"index": 0, "id": call_id, "type": "function",
                 "function": {"name": "get_weather", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"c'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": 'ity": "Köln"}'}}]},
        {},
    ]  # fmt: skip
    assert values(events)[-2]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("text", ["no call <tool", '<tool_call>\n{"na', "plain"])
def test_what_turned_out_to_be_no_call_is_text_whole_and_streamed(parts: Parts, text: str) -> None:
    parts.generator.pieces = [text]
    one = sealed(parts, request(tools=MAY))
    asked = one.answer.head.reservation.permit.request
    (choice,) = ChatForm(asked, 5, False).whole(one, None)["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")
    assert "tool_calls" not in choice["message"]
    chunks = values(streamed(one, [Delta(0, text)])[1])[:-1]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == text
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_logprobs_come_with_their_text_whole_and_streamed(parts: Parts) -> None:
    parts.generator.pieces = ["a", b"\xc3", b"\xa9"]
    asked = request(sampling=Sampling(0, logprobs=1))
    caller = ListeningCaller()
    one = asyncio.run(parts.pipeline().serve(asked, caller))
    (choice,) = ChatForm(asked, 5, False).whole(one, None)["choices"]
    content = choice["logprobs"]["content"]
    assert [entry["token"] for entry in content] == ["a", "\\xc3", "\\xa9"]
    assert bytes(byte for entry in content for byte in entry["bytes"]).decode() == "aé"
    assert [len(entry["top_logprobs"]) for entry in content] == [1, 1, 1]
    chunks = values(streamed(one, caller.deltas)[1])[:-1]
    entries = [c["choices"][0]["logprobs"]["content"] for c in chunks if c["choices"][0]["logprobs"]]
    assert [entry for part in entries for entry in part] == content


@given(st.text(st.characters(codec="utf-8")), st.booleans())
def test_a_chunk_of_text_is_the_json_of_its_fields_whatever_the_text(text: str, include_usage: bool) -> None:
    form = ChatForm(request(), 5, include_usage)
    form._same = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "tiny@3"}
    form._around = [form._around_text(0)]
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
    unused = {"usage": None} if include_usage else {}
    assert form.deltas([Delta(0, text)]) == event({**form._same, "choices": [choice], **unused})
