from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from starlette.requests import Request
from starlette.types import Message

from fedaigc.errors import RequestInvalid, Unavailable, VerificationFailed
from fedaigc_server import bounded_body as module
from fedaigc_server.bounded_body import bounded_body, bounded_record


def _request(chunks: Sequence[bytes], length: str | None = None, hangs: bool = False) -> Request:
    headers = [] if length is None else [(b"content-length", length.encode("latin-1"))]
    messages: list[Message] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if not hangs:
        messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Message:
        if not messages:
            await asyncio.sleep(60)
        return messages.pop(0)

    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)


def test_a_body_within_the_limit_arrives_whole() -> None:
    assert asyncio.run(bounded_body(_request([b"ab", b"cd"]), 4)) == b"abcd"


@pytest.mark.parametrize("length", ["5", "99999999999999999999", "-1", "4, 4", "²", "abc", ""])
def test_an_announced_length_over_the_limit_or_malformed_is_refused_unread(length: str) -> None:
    with pytest.raises(RequestInvalid, match="too large"):
        asyncio.run(bounded_body(_request([], length, hangs=True), 4))


def test_a_body_that_lies_about_its_length_is_cut_off() -> None:
    with pytest.raises(RequestInvalid, match="too large"):
        asyncio.run(bounded_body(_request([b"abc", b"def"], "3"), 4))


@pytest.mark.parametrize("name", ["CHUNK_TIMEOUT_S", "BODY_TIMEOUT_S"])
def test_a_stalled_body_does_not_hold_us_for_ever(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(module, name, 0.05)
    with pytest.raises(Unavailable, match="did not arrive"):
        asyncio.run(bounded_body(_request([b"a"], hangs=True), 4))


def test_a_broken_line_is_told() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(Unavailable):
        asyncio.run(bounded_body(Request({"type": "http", "headers": []}, receive), 4))


def test_a_record_is_one_json_object_and_nothing_else() -> None:
    assert asyncio.run(bounded_record(_request([b'{"a":1}']), 99)) == {"a": 1}
    assert asyncio.run(bounded_record(_request([]), 99)) == {}
    for text in (b"[1]", b'{"a":1,"a":2}', b"{", b'{"a":NaN}'):
        with pytest.raises(VerificationFailed):
            asyncio.run(bounded_record(_request([text]), 99))
