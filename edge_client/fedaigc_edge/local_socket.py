"""The daemon's private face: HTTP on a unix socket that only its owner can open, for ClientApp and CLI."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fedaigc.canonical import Json
from fedaigc.errors import (
    BudgetExceeded,
    Busy,
    FedaigcError,
    ModelError,
    NotAuthorised,
    PrivacyBudgetExceeded,
    RequestInvalid,
    Unavailable,
)

MAX_PLAN_BYTES = 1 << 20

log = logging.getLogger("fedaigc.edge.socket")


@dataclass(frozen=True)
class DaemonActs:
    """What the daemon lets its socket ask for."""

    round_status: Callable[[], Awaitable[Mapping[str, Json]]]
    run_round: Callable[[bytes], Awaitable[bytes]]
    full_status: Callable[[], Awaitable[Mapping[str, Json]]]
    leave: Callable[[], None]


def socket_app(acts: DaemonActs) -> Starlette:
    """The ASGI application of the socket: /status, /round, /status/full and /leave."""

    async def status(_: Request) -> Response:
        return JSONResponse(dict(await acts.round_status()))

    async def run_round(request: Request) -> Response:
        plan = await _bounded_body(request)
        return Response(await acts.run_round(plan), media_type="application/octet-stream")

    async def full_status(_: Request) -> Response:
        return JSONResponse(dict(await acts.full_status()))

    async def leave(_: Request) -> Response:
        acts.leave()
        return JSONResponse({"leaving": True})

    return Starlette(
        routes=[
            Route("/status", status, methods=["POST"]),
            Route("/round", run_round, methods=["POST"]),
            Route("/status/full", full_status, methods=["GET"]),
            Route("/leave", leave, methods=["POST"]),
        ],
        exception_handlers={FedaigcError: _told, HTTPException: _not_found, Exception: _hidden},
    )


def http_status(error: FedaigcError) -> int:
    """The HTTP status that fits an error."""
    for kinds, status in _STATUSES:
        if isinstance(error, kinds):
            return status
    return 500


_STATUSES: tuple[tuple[tuple[type[FedaigcError], ...], int], ...] = (
    ((RequestInvalid,), 400),
    ((NotAuthorised,), 403),
    ((PrivacyBudgetExceeded,), 409),
    ((Busy, BudgetExceeded), 429),
    ((Unavailable, ModelError), 503),
)


async def _bounded_body(request: Request) -> bytes:
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_PLAN_BYTES:
            raise RequestInvalid("The round plan is too large", f"the limit is {MAX_PLAN_BYTES} bytes")
    return bytes(content)


async def _told(_: Request, error: Exception) -> Response:
    if not isinstance(error, FedaigcError):
        return await _hidden(_, error)
    return JSONResponse({"error": error.as_json()}, http_status(error))


async def _not_found(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return JSONResponse({"error": RequestInvalid("There is no such route").as_json()}, status)


async def _hidden(_: Request, error: Exception) -> Response:
    # The type alone: an exception's text may quote a prompt.
    log.error("socket_request_failed error=%s", type(error).__name__)
    failure = FedaigcError("The daemon failed", type(error).__name__, "see logs/edge.log")
    return JSONResponse({"error": failure.as_json()}, 500)
