"""Completions byte by byte as OpenAI's published format has them."""

from __future__ import annotations

import asyncio
from typing import Any

from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.serve.completions_reply import CompletionsForm
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from tests.edge.serve.scripted import ListeningCaller, Parts, request
from tests.edge.serve.test_chat_reply import values


def sealed(parts: Parts, caller: ListeningCaller, **changes: Any) -> SealedAnswer:
    async def scenario() -> SealedAnswer:
        pipeline = parts.pipeline()
        made = await pipeline.serve(request(**{"prompts": ("Say hello",), **changes}), caller)
        await pipeline.end()
        return made

    return asyncio.run(scenario())


def form_of(one: SealedAnswer, include_usage: bool = False) -> CompletionsForm:
    return CompletionsForm(one.answer.head.reservation.permit.request, 1_796_000_000, include_usage)


def test_a_whole_answer_has_openais_fields(parts: Parts) -> None:
    one = sealed(parts, ListeningCaller(False), prompts=("Say hello", "Say it"))
    body = form_of(one).whole(one, None)
    assert list(body) == ["id", "object", "created", "model", "choices", "usage", "fedaigc"]
    assert (body["object"], body["model"]) == ("text_completion", "tiny@3")
    assert body["choices"] == [
        {"text": "Hello, world!", "index": index, "logprobs": None, "finish_reason": "stop"}
        for index in (0, 1)
    ]
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (6, 8)
    assert parts.outbox.counts().sealed == 2
    assert parts.remembered == []


def test_a_stream_is_byte_for_byte_the_published_format(parts: Parts) -> None:
    parts.generator.pieces = ("Hé",)
    caller = ListeningCaller()
    one = sealed(parts, caller)
    name = one.answer.head.reservation.permit.request.id
    head = (
        f'data: {{"id":"{name}","object":"text_completion","created":1796000000,"model":"tiny@3","choices":['
    )
    tail = f'"fedaigc":{{"request_id":"{name}","policy_version":3,"fingerprint_seq":1}}'
    golden = (
        head + '{"text":"Hé","index":0,"logprobs":null,"finish_reason":null}]}\n\n'
        + head + '{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}],' + tail + "}\n\n"
        "data: [DONE]\n\n"
    )  # fmt: skip
    form = form_of(one)
    assert (
        form.opening(one.answer.head) + form.deltas(caller.deltas) + form.ending(one, None) == golden.encode()
    )


def test_usage_comes_in_a_chunk_of_its_own_only_when_asked_for(parts: Parts) -> None:
    caller = ListeningCaller()
    one = sealed(parts, caller)
    form = form_of(one, include_usage=True)
    chunks = values(form.opening(one.answer.head) + form.deltas(caller.deltas) + form.ending(one, None))
    assert chunks[-1] == "[DONE]"
    assert (chunks[-2]["choices"], chunks[-2]["usage"]["total_tokens"]) == ([], 7)
    assert all(chunk["usage"] is None for chunk in chunks[:-2])


def test_logprobs_have_this_routes_form_whole_and_streamed(parts: Parts) -> None:
    caller = ListeningCaller()
    one = sealed(parts, caller, sampling=Sampling(0, logprobs=1))
    whole = form_of(one).whole(one, None)["choices"][0]["logprobs"]
    assert whole["tokens"] == ["Hello", ", ", "world", "!"]
    assert whole["text_offset"] == [0, 5, 7, 12]
    assert whole["token_logprobs"] == [-1.0, -2.0, -3.0, -4.0]
    form = form_of(one)
    chunks = values(form.opening(one.answer.head) + form.deltas(caller.deltas) + form.ending(one, None))
    told = [chunk["choices"][0]["logprobs"] for chunk in chunks[:-1]]
    assert [offset for each in told if each for offset in each["text_offset"]] == [0, 5, 7, 12]
