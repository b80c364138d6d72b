"""The unix socket by which Flower's ServerApp reaches the round's steps; only our own user can open it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc.canonical import Json, parse_record
from fedaigc.errors import FedaigcError, RequestInvalid
from fedaigc.fields import Fields
from fedaigc.update import MAX_UPDATE_BYTES
from fedaigc_server.bounded_body import bounded_body, bounded_record
from fedaigc_server.exact_routes import ExactRoutes
from fedaigc_server.rounds.run_round import RunRound

ATTEMPT_HEADER = "fedaigc-attempt"
MAX_STATUSES_BYTES = 16 << 20
MAX_DECLINE_BYTES = 16 << 10
_CODE = re.compile(r"[a-z_]{1,40}")
_ROUND = "/rounds/(?P<round>r-[0-9a-f]{16})"
_NODE = "(?P<flower_id>[0-9]{1,20})"


@dataclass(frozen=True)
class RoundSocket:
    """The endpoints; each repeats its answer when it is asked again."""

    rounds: RunRound

    def app(self) -> ExactRoutes:
        """The application for the socket."""
        return ExactRoutes(
            {
                ("POST", f"{_ROUND}/begin"): self.begin,
                ("POST", f"{_ROUND}/statuses"): self.statuses,
                ("POST", f"{_ROUND}/updates/{_NODE}"): self.update,
                ("POST", f"{_ROUND}/declined/{_NODE}"): self.declined,
                ("POST", f"{_ROUND}/close"): self.close,
            }
        )

    async def begin(self, request: Request) -> Response:
        """`POST /rounds/{id}/begin`."""
        return JSONResponse(await to_thread.run_sync(self.rounds.begin, *_attempt(request)))

    async def statuses(self, request: Request) -> Response:
        """`POST /rounds/{id}/statuses`: {"statuses": {flower id: base64}}."""
        fields = Fields(await bounded_record(request, MAX_STATUSES_BYTES), "statuses")
        answers = fields.inner("statuses").record
        return JSONResponse(await to_thread.run_sync(self.rounds.statuses, *_attempt(request), answers))

    async def update(self, request: Request) -> Response:
        """`POST /rounds/{id}/updates/{flower id}`: the signed update's bytes."""
        data = await bounded_body(request, MAX_UPDATE_BYTES)
        step = partial(self.rounds.update, *_attempt(request), request.path_params["flower_id"], data)
        return JSONResponse(await to_thread.run_sync(step))

    async def declined(self, request: Request) -> Response:
        """`POST /rounds/{id}/declined/{flower id}`: the device's error, of which only the code is kept."""
        code = _code(await bounded_body(request, MAX_DECLINE_BYTES))
        step = partial(self.rounds.declined, *_attempt(request), request.path_params["flower_id"], code)
        await to_thread.run_sync(step)
        return JSONResponse({})

    async def close(self, request: Request) -> Response:
        """`POST /rounds/{id}/close`; only the attempt that runs the round may close it."""
        await bounded_body(request, MAX_DECLINE_BYTES)
        round_id, attempt = _attempt(request)
        return JSONResponse(await to_thread.run_sync(self.rounds.close, round_id, attempt))


def _attempt(request: Request) -> tuple[str, int]:
    text = request.headers.get(ATTEMPT_HEADER, "")
    if not text.isdecimal() or len(text) > 6:
        raise RequestInvalid("The attempt is missing", "", "send its number", ATTEMPT_HEADER)
    return request.path_params["round"], int(text)


def _code(data: bytes) -> str:
    try:
        code: Json = parse_record(data, MAX_DECLINE_BYTES).get("code")
    except FedaigcError:
        code = None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "error"
