"""Carry to Flower's loopback SuperLink exactly the calls that a SuperNode makes, for enrolled keys only.

SuperLink serves its Fleet, Control and Runtime APIs on one port, and whoever reaches Control can run code on
server and devices. So nothing here is forwarded by prefix: a call passes when its method is POST, its raw
path is one of FLEET_PATHS, and its key belongs to a node in good standing. SuperLink still checks every
signature itself.
"""

from __future__ import annotations

import base64
import binascii
import logging
import ssl
from collections.abc import AsyncIterator, Collection

import httpx
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from fedaigc.errors import RequestInvalid
from fedaigc_server.bounded_body import bounded_chunks
from fedaigc_server.registry import ACTIVE, Registry

log = logging.getLogger(__name__)

FLEET = "/v1/fleet/"
ACTIVATE = FLEET + "activate-node"
_BULK = {FLEET + "push-object": 72 << 20}
"""One object is at most one update of 64 MiB; every other request is small."""

_SMALL = 4 << 20
FLEET_PATHS = frozenset(
    FLEET + name
    for name in (
        "activate-node",
        "deactivate-node",
        "send-node-heartbeat",
        "pull-messages",
        "push-messages",
        "get-run",
        "get-fab",
        "pull-object",
        "push-object",
        "confirm-message-received",
    )
)
"""What `flower-supernode` 1.42 calls when it has a key; never register-node, unregister-node or any other."""

MAX_RESPONSE_BYTES = 72 << 20
MAX_KEY_CHARS = 1024
KEY_HEADER = "flwr-public-key"

_HOP_BY_HOP = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
    ]
)
_NODE_ACTIVATION_FAILED = 2004
_HELP = (
    "This device's key is not registered here: it never enrolled, or was revoked. "
    "Next: ask the operator for a new token, then run: fedaigc-edge leave; fedaigc-edge join --token TOKEN"
)


class FlowerGuard:
    """The endpoint behind every path of FLEET_PATHS."""

    def __init__(
        self,
        superlink_url: str,
        trust: ssl.SSLContext,
        registry: Registry,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._registry = registry
        # Pooled: every node polls every few seconds, and a handshake costs more than the call.
        self._pool = httpx.AsyncClient(
            base_url=superlink_url,
            verify=trust,
            timeout=httpx.Timeout(60.0, connect=5.0),
            limits=httpx.Limits(max_connections=200, max_keepalive_connections=50),
            trust_env=False,
            transport=transport,
        )

    async def __call__(self, request: Request) -> Response:
        """Forward one call and stream the answer back; the answer's text stays Flower's own."""
        path = request.scope["path"]
        if not await to_thread.run_sync(self._enrolled, request.headers.get(KEY_HEADER, "")):
            return _not_enrolled(path)
        body = bounded_chunks(request, _BULK.get(path, _SMALL))
        forwarded = self._pool.build_request(
            "POST", path, headers=_passing(request.headers.items()), content=body
        )
        try:
            answer = await self._pool.send(forwarded, stream=True)
        except httpx.HTTPError as error:
            log.warning("event=superlink_unreachable path=%s type=%s", path, type(error).__name__)
            # 503 is what makes a SuperNode try again instead of giving up.
            return JSONResponse({"detail": "The server's SuperLink restarts; try again"}, 503)
        if path == ACTIVATE and answer.status_code == httpx.codes.PRECONDITION_FAILED:
            # Flower takes a node that died for online until two heartbeats are missed. The key is in our
            # registry, so that will pass: 503 lets the SuperNode wait where 412 would make it give up.
            await answer.aclose()
            return JSONResponse({"detail": "This node still counts as online; try again"}, 503)
        return StreamingResponse(
            _bounded_answer(answer), answer.status_code, dict(_passing(answer.headers.items()))
        )

    async def aclose(self) -> None:
        """Close the pool."""
        await self._pool.aclose()

    def _enrolled(self, header: str) -> bool:
        if not header or len(header) > MAX_KEY_CHARS:
            return False
        try:
            pem = base64.b64decode(header, validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            return False
        node = self._registry.by_flower_key(pem)
        return node is not None and node.standing == ACTIVE


def _not_enrolled(path: str) -> JSONResponse:
    # The forms that a SuperNode understands: at activation it prints `detail` and `extra` and exits at once;
    # on any later call a 401 makes it stop.
    if path == ACTIVATE:
        body = {"code": _NODE_ACTIVATION_FAILED, "detail": "Failed to activate SuperNode.", "extra": _HELP}
        return JSONResponse(body, 412)
    return JSONResponse({"detail": "Invalid SuperNode authentication", "extra": _HELP}, 401)


def _passing(headers: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    named = {
        token.strip().lower() for key, value in headers if key == "connection" for token in value.split(",")
    }
    return [(key, value) for key, value in headers if key.lower() not in _HOP_BY_HOP | named]


async def _bounded_answer(answer: httpx.Response) -> AsyncIterator[bytes]:
    size = 0
    try:
        async for chunk in answer.aiter_raw():
            size += len(chunk)
            if size > MAX_RESPONSE_BYTES:
                log.error("event=answer_too_large bytes=%d", size)
                raise RequestInvalid("An answer is too large", "", "tell the operator")
            yield chunk
    finally:
        await answer.aclose()
