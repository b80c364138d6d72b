"""What each kind of caller is sent, and when."""

from __future__ import annotations

import asyncio
from typing import Any

from fedaigc_edge.serve.callers import HttpCaller, StreamedCaller, WholeCaller
from fedaigc_edge.serve.chat_reply import ChatForm
from fedaigc_edge.serve.openai_errors import answer_of
from tests.edge.serve.scripted import Parts, request

ERROR = answer_of(500, "server_error", "storage", "The disk is full")


class Wire:
    """Keeps what was sent."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def send(self, message: Any) -> None:
        self.messages.append(message)

    @property
    def statuses(self) -> list[int]:
        return [m["status"] for m in self.messages if m["type"] == "http.response.start"]

    @property
    def body(self) -> bytes:
        return b"".join(m.get("body", b"") for m in self.messages)

    @property
    def ended(self) -> bool:
        return not self.messages[-1].get("more_body", False)


def exchange(parts: Parts, stream: bool, seal_fails: bool = False, leave: bool = False) -> Wire:
    wire = Wire()
    asked = request()
    form = ChatForm(asked, 5, include_usage=False)
    caller: HttpCaller = (StreamedCaller if stream else WholeCaller)(wire.send, asked.id, form)

    async def scenario() -> None:
        sealed = await parts.pipeline().serve(asked, caller)
        if leave:
            caller.gone.set()
        if seal_fails:
            await caller.fail(ERROR)
        else:
            await caller.finish(sealed, None)

    asyncio.run(scenario())
    return wire


def test_a_whole_answer_is_sent_at_once_after_the_seal(parts: Parts) -> None:
    wire = exchange(parts, stream=False)
    assert wire.statuses == [200]
    assert len(wire.messages) == 2
    assert wire.ended


def test_a_stream_sends_the_status_with_its_first_text(parts: Parts) -> None:
    wire = exchange(parts, stream=True)
    assert wire.statuses == [200]
    assert b'"role":"assistant"' in wire.messages[1]["body"]
    assert b'"content":"Hello"' in wire.messages[1]["body"]
    assert wire.body.endswith(b"data: [DONE]\n\n")
    assert wire.ended


def test_an_empty_answer_is_a_complete_stream_too(parts: Parts) -> None:
    parts.generator.pieces = ()
    wire = exchange(parts, stream=True)
    assert wire.statuses == [200]
    assert wire.body.endswith(b"data: [DONE]\n\n")


def test_a_stream_that_fails_after_its_first_text_says_so_and_has_no_end_mark(parts: Parts) -> None:
    wire = exchange(parts, stream=True, seal_fails=True)
    assert wire.statuses == [200]
    assert b'data: {"error":{"message":"The disk is full"' in wire.body
    assert b"[DONE]" not in wire.body
    assert b'"finish_reason":"stop"' not in wire.body
    assert wire.ended


def test_what_fails_before_the_first_text_has_a_true_status() -> None:
    for kind in (StreamedCaller, WholeCaller):
        wire = Wire()
        asked = request()
        caller: HttpCaller = kind(wire.send, asked.id, ChatForm(asked, 5, False))
        asyncio.run(caller.fail(ERROR))
        assert wire.statuses == [500]


def test_a_server_that_raises_on_a_lost_connection_means_a_caller_who_left(parts: Parts) -> None:
    async def lost(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError("gone")

    asked = request()
    caller = StreamedCaller(lost, asked.id, ChatForm(asked, 5, False))

    async def scenario() -> None:
        await parts.pipeline().serve(asked, caller)

    asyncio.run(scenario())
    assert caller.gone.is_set()


def test_nothing_is_sent_after_a_caller_who_left_a_stream(parts: Parts) -> None:
    wire = exchange(parts, stream=True, leave=True)
    assert b"[DONE]" not in wire.body
