"""Read a request's body with its size limited before anything is parsed."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve.request import BodyTooLarge, CallerGone, Language

WHOLE_BODY_S = 30.0
"""A caller on the same machine that takes longer to send its body is given up."""
MAX_DRAINED_BYTES = 8 << 20
"""How much of a body that is too large is read and dropped, so that its sender gets to read the refusal."""


async def read_body(receive: Receive, limit: int) -> bytes:
    """The whole body; raises BodyTooLarge, RequestInvalid when too slow, CallerGone on a hang-up."""
    try:
        async with asyncio.timeout(WHOLE_BODY_S):
            return await _read(receive, limit)
    except TimeoutError:
        raise RequestInvalid(
            "The request's body did not arrive", f"it took more than {WHOLE_BODY_S:g} s", "send it at once"
        ) from None


async def _read(receive: Receive, limit: int) -> bytes:
    body = bytearray()
    size = 0
    more = True
    while more and size <= MAX_DRAINED_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerGone("The caller left while sending", "", "ask again")
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limit:
            body += piece
        more = bool(message.get("more_body", False))
    if size > limit:
        raise BodyTooLarge("The request is too large", f"the limit is {limit} bytes", "send less text")
    return bytes(body)


async def left(receive: Receive) -> None:
    """Return when the caller has hung up; the body has been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


def preferred_language(scope: Scope) -> Language:
    """`zh` when the caller's first Accept-Language is Chinese, else `en`."""
    for name, value in scope["headers"]:
        if name == b"accept-language":
            return "zh" if value.strip().lower().startswith(b"zh") else "en"
    return "en"
