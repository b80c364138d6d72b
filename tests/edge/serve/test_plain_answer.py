"""One answer, whole, with its length."""

from __future__ import annotations

import asyncio
from typing import Any

from fedaigc_edge.serve.openai_errors import answer_of
from fedaigc_edge.serve.plain_answer import send_error, send_json


def sent(act: Any) -> tuple[int, dict[bytes, bytes], bytes]:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(act(send))
    start, body = messages
    return start["status"], dict(start["headers"]), body["body"]


def test_json_is_sent_with_its_length_in_bytes() -> None:
    status, headers, body = sent(lambda send: send_json(send, {"a": "绝"}, headers={"x-request-id": "r"}))
    assert (status, body) == (200, '{"a":"绝"}'.encode())
    assert headers[b"content-length"] == str(len(body)).encode()
    assert headers[b"x-request-id"] == b"r"


def test_an_error_brings_its_own_headers() -> None:
    status, headers, body = sent(lambda send: send_error(send, answer_of(429, "t", "c", "m", retry_s=7)))
    assert (status, headers[b"retry-after"]) == (429, b"7")
    assert body == b'{"error":{"message":"m","type":"t","param":null,"code":"c"}}'
