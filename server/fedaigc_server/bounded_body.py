"""Read a request's body, but never more of it than allowed, and never for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
from starlette.requests import Request

from fedaigc.canonical import Json, parse_record
from fedaigc.errors import RequestInvalid, Unavailable

CHUNK_TIMEOUT_S = 30.0
BODY_TIMEOUT_S = 600.0
"""Long enough for 64 MiB over a slow line; a drip-fed body ends here."""


async def bounded_chunks(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The body in pieces, at most `limit` bytes of it.

    Raises RequestInvalid when it is larger, Unavailable when it stalls or the line breaks.
    """
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > limit:
        raise _too_large(limit)
    size, ends, more = 0, anyio.current_time() + BODY_TIMEOUT_S, True
    while more:
        try:
            # The scope is closed before the yield: a cancel scope must not live across one.
            with anyio.fail_after(min(CHUNK_TIMEOUT_S, ends - anyio.current_time())):
                message = await request.receive()
        except TimeoutError as error:
            raise _broken() from error
        if message["type"] != "http.request":
            raise _broken()
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        yield chunk


async def bounded_body(request: Request, limit: int) -> bytes:
    """The whole body of at most `limit` bytes; raises as `bounded_chunks`."""
    data = bytearray()
    async for chunk in bounded_chunks(request, limit):
        data += chunk
    return bytes(data)


async def bounded_record(request: Request, limit: int) -> dict[str, Json]:
    """The body as one JSON object; an empty body is an empty object. Raises VerificationFailed too."""
    data = await bounded_body(request, limit)
    return parse_record(data, limit) if data else {}


def _too_large(limit: int) -> RequestInvalid:
    return RequestInvalid(
        "A request is too large", f"the limit is {limit} bytes", "send less at once", "body"
    )


def _broken() -> Unavailable:
    return Unavailable("A request's body did not arrive", "the line is slow or broke", "try again")
