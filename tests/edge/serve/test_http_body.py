"""A body's size is limited before anything is made of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve import http_body
from fedaigc_edge.serve.http_body import MAX_DRAINED_BYTES, preferred_language, read_body
from fedaigc_edge.serve.request import BodyTooLarge, CallerGone


class Sender:
    """Sends pieces as a server hands them on."""

    def __init__(self, *pieces: bytes, hang_up: bool = False) -> None:
        self.messages: list[dict[str, Any]] = [
            {"type": "http.request", "body": piece, "more_body": hang_up or number < len(pieces)}
            for number, piece in enumerate(pieces, 1)
        ]
        self.messages += [{"type": "http.disconnect"}] * hang_up
        self.read = 0

    async def __call__(self) -> Any:
        self.read += 1
        return self.messages.pop(0)


def test_pieces_are_joined() -> None:
    assert asyncio.run(read_body(Sender(b"ab", b"", b"c"), 3)) == b"abc"


def test_one_byte_too_many_is_refused_after_the_rest_was_drained() -> None:
    sender = Sender(b"ab", b"cd", b"ef")
    with pytest.raises(BodyTooLarge):
        asyncio.run(read_body(sender, 3))
    assert sender.messages == []


def test_an_endless_body_is_not_drained_for_ever() -> None:
    sender = Sender(*[b"x" * (1 << 20)] * 50)
    with pytest.raises(BodyTooLarge):
        asyncio.run(read_body(sender, 3))
    assert sender.read <= (MAX_DRAINED_BYTES >> 20) + 1


def test_a_caller_who_hangs_up_is_noticed() -> None:
    with pytest.raises(CallerGone):
        asyncio.run(read_body(Sender(b"ab", hang_up=True), 100))


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> Any:
        await asyncio.sleep(60)

    monkeypatch.setattr(http_body, "WHOLE_BODY_S", 0.01)
    with pytest.raises(RequestInvalid, match="did not arrive"):
        asyncio.run(read_body(never, 100))


@pytest.mark.parametrize(
    ("header", "language"), [(b"zh-CN,en;q=0.5", "zh"), (b"en", "en"), (b" ZH", "zh"), (b"de,zh", "en")]
)
def test_the_callers_first_language_decides(header: bytes, language: str) -> None:
    assert preferred_language({"headers": [(b"accept-language", header)]}) == language
    assert preferred_language({"headers": []}) == "en"
