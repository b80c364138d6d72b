"""The bare client hears what was said, however the bytes were cut."""

from __future__ import annotations

import asyncio

import pytest

from bench.failure import BenchFailed
from bench.stream_caller import Heard, ask
from tests.bench.played_server import event, framed, playing

STREAM = [
    event({"role": "assistant", "content": ""}),
    event({"content": "Hello"}),
    event({"content": " 世界"}),
    event({}, "length", fedaigc={"timings_ms": {"gate": 0.25}}),
    b'data: {"choices": [], "usage": {"completion_tokens": 2, "prompt_tokens": 9}}\n\n',
    b"data: [DONE]\n\n",
]


def hear(body: bytes, status: str = "200 OK") -> Heard:
    with playing(body, status) as port:
        return asyncio.run(ask(port, {"messages": []}))


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_answer_is_heard_whole_however_it_is_cut(size: int) -> None:
    stream = b"".join(STREAM)
    heard = hear(framed([stream[start : start + size] for start in range(0, len(stream), size)]))
    assert (heard.chunks, heard.finish) == (2, "length")
    assert heard.usage["completion_tokens"] == 2
    assert heard.timings_ms == {"gate": 0.25}
    assert heard.started < heard.first <= heard.last <= heard.ended
    assert heard.ttft_s == heard.first - heard.started


def test_a_refusal_is_named_without_its_text() -> None:
    body = framed([b'{"error": {"code": "busy", "param": null, "message": "you said: secret"}}'])
    with pytest.raises(BenchFailed, match="busy") as caught:
        hear(body, "429 Too Many Requests")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        framed(STREAM[:3]),
        framed(STREAM[:2])[:-9],
        framed([*STREAM[:2], b'data: {"error": {"code": "model_error"}}\n\n']),
    ],
    ids=["no finish", "cut", "error"],
)
def test_an_answer_that_is_not_whole_is_no_answer(body: bytes) -> None:
    with pytest.raises(BenchFailed):
        hear(body)
