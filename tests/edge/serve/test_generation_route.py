"""Chat completions over a real socket, by OpenAI's own program and by raw bytes."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import threading
import time
from typing import Any

import httpx
import openai
import pytest

from fedaigc.errors import ModelError, NotAuthorised
from fedaigc.fingerprint import fingerprint_text
from fedaigc.token_budget import TokenBudget
from fedaigc_edge.evidence.receipt_check import PendingEntry
from fedaigc_edge.serve import dialects
from fedaigc_edge.serve.generation_route import GenerationRoute
from fedaigc_edge.serve.readiness import Readiness
from tests.edge.serve.scripted import Parts, RunningApi, until
from tests.edge.serve.scripted_generator import ScriptedGenerator

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "say hello"}]
LONG = {"role": "user", "content": "w " * 3000}


def create(caller: openai.OpenAI, **fields: Any) -> Any:
    """The program's own call, for fields and answers that its types do not know."""
    return caller.chat.completions.create(**fields)


def evidence(parts: Parts) -> list[PendingEntry]:
    return parts.outbox.pending(1000, 1 << 30)


def test_openais_program_gets_a_whole_answer(caller: openai.OpenAI, parts: Parts) -> None:
    answer = create(caller, model="tiny", messages=MESSAGES, seed=1, stop=None)
    assert answer.choices[0].message.content == "Hello, world!"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 4
    assert answer.model == "tiny@3"
    assert answer.fedaigc["fingerprint_seq"] == 1
    assert answer._request_id == answer.id
    assert evidence(parts)[0].raw == fingerprint_text("Hello, world!").raw


def test_openais_program_gets_a_stream_with_usage(caller: openai.OpenAI) -> None:
    stream = create(
        caller, model="tiny@3", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "Hello, world!"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 7)
    assert chunks[-2].fedaigc["fingerprint_seq"] == 1


def test_characters_of_every_width_arrive_whole(caller: openai.OpenAI, parts: Parts) -> None:
    parts.generator.pieces = ("绝", "句 🙂", "\u2028\u0085 é", "\n\ndata: x")
    stream = create(caller, model="tiny", messages=MESSAGES, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text == "".join(parts.generator.pieces)
    assert evidence(parts)[0].raw == fingerprint_text(text).raw


def test_the_stream_is_byte_exact(api: RunningApi) -> None:
    answer = httpx.post(api.url + CHAT, json={"model": "tiny", "messages": MESSAGES, "stream": True})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = answer.content.split(b"\n\n")
    assert events[-2:] == [b"data: [DONE]", b""]
    bodies = [json.loads(event.removeprefix(b"data: ")) for event in events[:-2]]
    assert [body["choices"][0]["delta"].get("content") for body in bodies] == [
        "",
        "Hello",
        ", ",
        "world",
        "!",
        None,
    ]
    assert {body["id"] for body in bodies} == {answer.headers["x-request-id"]}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"model": "gpt-4o"}, 404, "model_not_found", "model"),
        ({"model": "tiny@2"}, 404, "model_not_found", "model"),
        ({"modalities": ["audio"]}, 400, "invalid_request", "modalities"),
        ({"surprise": 1}, 400, "invalid_request", "surprise"),
        ({"max_tokens": 5000}, 400, "context_length_exceeded", "max_tokens"),
        (
            {"messages": [{"role": "user", "content": "w " * 3000}]},
            400,
            "context_length_exceeded",
            "messages",
        ),
        (
            {"messages": [{"role": "user", "content": "a forbidden apple"}]},
            400,
            "policy_violation",
            "messages",
        ),
    ],
)
def test_a_refusal_has_openais_form_streamed_or_not(
    api: RunningApi, stream: bool, fields: dict[str, object], status: int, code: str, param: str
) -> None:
    body = {"model": "tiny", "messages": MESSAGES, "stream": stream, **fields}
    answer = httpx.post(api.url + CHAT, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
    assert answer.headers["x-request-id"].startswith("chatcmpl-")
    assert evidence(api.parts) == []


def test_openais_program_raises_its_own_errors(caller: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as denied:
        create(caller, model="tiny", messages=[{"role": "user", "content": "禁果"}])
    assert denied.value.code == "policy_violation"
    assert denied.value.body["rule"] == "no-apples"  # type: ignore[index]
    with pytest.raises(openai.NotFoundError):
        create(caller, model="gpt-4o", messages=[{"role": "user", "content": "x"}])


def test_a_denial_speaks_chinese_to_a_chinese_caller(api: RunningApi) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "禁果"}]}
    answer = httpx.post(api.url + CHAT, json=body, headers={"accept-language": "zh-CN"})
    assert "不允许苹果" in answer.json()["error"]["message"]


def test_an_exhausted_budget_is_429_with_a_time(api: RunningApi, parts: Parts) -> None:
    parts.budget = TokenBudget(30, 3600, time.monotonic)
    with RunningApi(parts) as small:
        body = {"model": "tiny", "messages": MESSAGES, "max_tokens": 20}
        assert httpx.post(small.url + CHAT, json=body).status_code == 200
        answer = httpx.post(small.url + CHAT, json={**body, "max_tokens": 24})
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "budget_exceeded")
    assert 1 <= int(answer.headers["retry-after"]) <= 3600


def test_a_full_line_is_429_with_a_time(parts: Parts) -> None:
    parts.generator = ScriptedGenerator(pieces=["x"] * 100, pause_s=0.01, slots=1, waiting=0)
    with RunningApi(parts) as api:
        body = {"model": "tiny", "messages": MESSAGES}
        first = threading.Thread(target=lambda: httpx.post(api.url + CHAT, json=body))
        first.start()
        until(lambda: parts.generator.running == 1)
        answer = httpx.post(api.url + CHAT, json=body)
        first.join()
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "busy")
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("data", "status"), [(b"{", 400), (b"\xff", 400), (b"[" * 100_000, 400), (b"x" * (2 << 20), 413)]
)
def test_a_body_that_cannot_be_read_is_refused(api: RunningApi, data: bytes, status: int) -> None:
    answer = httpx.post(api.url + CHAT, content=data)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert httpx.get(api.url + "/health").status_code == 200


def test_when_the_disk_is_full_a_whole_answer_is_an_error(api: RunningApi, parts: Parts) -> None:
    make_room = parts.fill_disk()
    body = {"model": "tiny", "messages": MESSAGES}
    answer = httpx.post(api.url + CHAT, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "storage")
    assert "Hello" not in answer.text
    make_room()
    assert httpx.post(api.url + CHAT, json=body).json()["fedaigc"]["fingerprint_seq"] == 1


def test_when_the_disk_is_full_a_stream_ends_with_an_error(caller: openai.OpenAI, parts: Parts) -> None:
    parts.fill_disk()
    stream = create(caller, model="tiny", messages=MESSAGES, stream=True)
    finishes: list[str | None] = []
    with pytest.raises(openai.APIError, match="disk is full"):
        finishes.extend(chunk.choices[0].finish_reason for chunk in stream)
    assert set(finishes) == {None}


def test_a_generator_that_fails_in_mid_stream_ends_with_an_error(api: RunningApi, parts: Parts) -> None:
    parts.generator.failure = ModelError("The runtime failed")
    answer = httpx.post(api.url + CHAT, json={"model": "tiny", "messages": MESSAGES, "stream": True})
    assert answer.status_code == 200
    assert '"code":"model"' in answer.text
    assert "[DONE]" not in answer.text


def test_a_defect_is_logged_by_place_and_never_by_its_words(
    api: RunningApi, parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    parts.generator.failure = LookupError("the secret prompt")
    with caplog.at_level(logging.DEBUG):
        answer = httpx.post(api.url + CHAT, json={"model": "tiny", "messages": MESSAGES})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert "secret" not in answer.text + caplog.text
    assert "LookupError" in caplog.text
    assert "scripted_generator.py" in caplog.text


def leave_after(api: RunningApi, stream: bool, events: int) -> bytes:
    """Ask, read until `events` events came (or a moment when not streaming), and hang up."""
    body = json.dumps({"model": "tiny", "messages": MESSAGES, "stream": stream}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    got = b""
    with socket.create_connection(("127.0.0.1", api.port), timeout=5) as connection:
        connection.sendall(head + body)
        if stream:
            while got.count(b"data: ") < events:
                got += connection.recv(65536)
        else:
            until(lambda: api.parts.generator.made >= events)
    return got


def test_a_caller_who_hangs_up_a_stream_ends_it_and_what_was_sent_is_sealed(
    api: RunningApi, parts: Parts
) -> None:
    parts.generator.pieces, parts.generator.pause_s = ["word "] * 2000, 0.01
    leave_after(api, stream=True, events=5)
    until(lambda: parts.metrics.requests["cancelled"] == 1)
    assert parts.generator.running == 0
    assert parts.generator.made < 12
    (sealed,) = evidence(parts)
    assert sealed.raw in {fingerprint_text("word " * count).raw for count in range(4, 12)}


def test_a_caller_who_hangs_up_on_a_whole_answer_ends_it_unsealed(api: RunningApi, parts: Parts) -> None:
    parts.generator.pieces, parts.generator.pause_s = ["word "] * 2000, 0.01
    leave_after(api, stream=False, events=3)
    until(lambda: parts.metrics.requests["cancelled"] == 1)
    assert parts.generator.made < 10
    assert evidence(parts) == []
    assert parts.budget.held == 0


def test_stopping_the_server_seals_what_streams_were_given(api: RunningApi, parts: Parts) -> None:
    parts.generator.pieces, parts.generator.pause_s = ["word "] * 2000, 0.01
    reading = threading.Thread(target=lambda: leave_after(api, stream=True, events=10_000), daemon=True)
    reading.start()
    until(lambda: parts.generator.made > 5)
    api.stop()
    assert parts.generator.running == 0
    assert len(evidence(parts)) == 1


def test_a_revoked_device_answers_503_with_the_reason(api: RunningApi) -> None:
    api.readiness.close(NotAuthorised("This device was revoked", "", "ask for a new token"))
    answer = httpx.post(api.url + CHAT, json={"model": "tiny", "messages": MESSAGES})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_authorised")
    assert "ask for a new token" in answer.json()["error"]["message"]


def test_an_answer_that_is_cut_by_a_stop_leaves_no_error_for_asyncio_to_log(parts: Parts) -> None:
    parts.generator.pieces, parts.generator.pause_s = ["word "] * 2000, 0.01
    body = json.dumps({"model": "tiny", "messages": MESSAGES}).encode()
    unheard: list[Any] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        arriving = iter([{"type": "http.request", "body": body}])

        async def receive() -> Any:
            return next(arriving, None) or await asyncio.Event().wait()

        async def send(_: Any) -> None:
            pass

        readiness = Readiness()
        readiness.open(parts.pipeline())
        route = GenerationRoute(dialects.CHAT, readiness, parts.metrics)
        answering = asyncio.create_task(route({"type": "http", "headers": []}, receive, send))
        await asyncio.to_thread(until, lambda: parts.generator.made > 2)
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        del answering
        gc.collect()

    asyncio.run(scenario())
    assert unheard == []
