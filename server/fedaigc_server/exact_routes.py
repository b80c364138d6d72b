"""A closed list of routes: a request is served only when its raw path is, byte for byte, a listed one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from fedaigc_server.error_answers import answer_exception

Endpoint = Callable[[Request], Awaitable[Response]]
NOT_FOUND = {"error": {"code": "not_found", "what": "There is nothing here", "why": "", "do_next": ""}}


class ExactRoutes:
    """An ASGI application of (method, path pattern) -> endpoint, and nothing else.

    A pattern is matched against the whole raw path, so an encoded character, a dot segment, a doubled or
    trailing slash or another case never reaches an endpoint: 404. A listed path with another method: 405.
    """

    def __init__(self, routes: Mapping[tuple[str, str], Endpoint]) -> None:
        self._routes = [(method, re.compile(path), endpoint) for (method, path), endpoint in routes.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        path = plain_path(scope)
        methods = []
        for method, pattern, endpoint in self._routes:
            match = pattern.fullmatch(path) if path is not None else None
            if match is None:
                continue
            methods.append(method)
            if method == scope["method"]:
                scope["path_params"] = match.groupdict()
                answer = await _answer(Request(scope, receive), endpoint)
                await answer(scope, receive, send)
                return
        if methods:
            refusal: Response = JSONResponse(NOT_FOUND, 405, {"allow": ", ".join(sorted(methods))})
        else:
            refusal = JSONResponse(NOT_FOUND, 404)
        await refusal(scope, receive, send)


async def _answer(request: Request, endpoint: Endpoint) -> Response:
    try:
        return await endpoint(request)
    except Exception as error:
        return answer_exception(request, error)


def plain_path(scope: Scope) -> str | None:
    """The request's path when its raw and decoded forms are the same, else None."""
    path = str(scope["path"])
    return path if scope.get("raw_path", b"") == path.encode("utf-8", "surrogatepass") else None
