"""Bytes as OpenAI's programs read them, and an end only for what is sealed."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from fedaigc_edge.serve.openai_reply import DONE, ChunkForm, completion, event, json_bytes
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from tests.edge.serve.scripted import ListeningCaller, Parts, request


def sealed(parts: Parts) -> SealedAnswer:
    async def scenario() -> SealedAnswer:
        return await parts.pipeline().serve(request(), ListeningCaller())

    return asyncio.run(scenario())


def values(events: bytes) -> list[object]:
    return [
        json.loads(line.removeprefix(b"data: ")) if b"[DONE]" not in line else "[DONE]"
        for line in events.split(b"\n\n")
        if line
    ]


def test_an_event_is_one_line_and_an_empty_one() -> None:
    assert event({"a": "é"}) == b'data: {"a":"\xc3\xa9"}\n\n'
    assert DONE == b"data: [DONE]\n\n"


@given(st.text(st.characters(codec="utf-8")))
def test_no_text_can_break_an_events_line_for_any_reader(text: str) -> None:
    data = json_bytes({"t": text})
    assert json.loads(data) == {"t": text}
    assert len(data.decode("utf-8").splitlines()) == 1


def test_a_whole_answer_has_openais_fields(parts: Parts) -> None:
    body = completion(sealed(parts), 1_796_000_000)
    assert (body["object"], body["created"], body["model"]) == ("chat.completion", 1_796_000_000, "tiny@3")
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello, world!", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert body["usage"] == {"prompt_tokens": 6, "completion_tokens": 4, "total_tokens": 10}
    assert body["fedaigc"] == {"request_id": body["id"], "policy_version": 3, "fingerprint_seq": 1}


def test_the_chunks_of_a_stream_share_one_head(parts: Parts) -> None:
    one = sealed(parts)
    form = ChunkForm(one.answer.head, 5, include_usage=False)
    first, text, last, done = values(form.first() + form.text("Hi") + form.last(one))
    for chunk in (first, text, last):
        assert isinstance(chunk, dict)
        assert (chunk["object"], chunk["created"], chunk["model"]) == ("chat.completion.chunk", 5, "tiny@3")
        assert "usage" not in chunk
    assert isinstance(first, dict)
    assert isinstance(text, dict)
    assert isinstance(last, dict)
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert (text["choices"][0]["delta"], text["choices"][0]["finish_reason"]) == ({"content": "Hi"}, None)
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    assert last["fedaigc"]["fingerprint_seq"] == 1
    assert done == "[DONE]"


def test_usage_comes_in_a_chunk_of_its_own_without_choices_only_when_asked_for(parts: Parts) -> None:
    one = sealed(parts)
    form = ChunkForm(one.answer.head, 5, include_usage=True)
    first, last, usage, done = values(form.first() + form.last(one))
    assert isinstance(first, dict)
    assert isinstance(last, dict)
    assert isinstance(usage, dict)
    assert first["usage"] is None
    assert last["usage"] is None
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 10)
    assert done == "[DONE]"
