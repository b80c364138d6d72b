"""Send one whole HTTP answer over ASGI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.types import Send

from fedaigc_edge.serve.json_text import json_bytes
from fedaigc_edge.serve.openai_errors import ErrorAnswer

REQUEST_ID_HEADER = "x-request-id"


async def send_answer(
    send: Send, status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None
) -> None:
    """Send status, headers and body at once."""
    fields = {"content-type": content_type, "content-length": str(len(body)), **(headers or {})}
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


async def send_json(
    send: Send, value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> None:
    """Send a JSON value."""
    await send_answer(send, status, json_bytes(value), "application/json", headers)


async def send_error(send: Send, error: ErrorAnswer, headers: Mapping[str, str] | None = None) -> None:
    """Send an error in OpenAI's form."""
    await send_json(send, error.body, error.status, {**error.headers, **(headers or {})})
