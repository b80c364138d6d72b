"""Who is calling the admin port: a bearer token compared in constant time, and a Host that is really ours."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from fedaigc.errors import NotAuthorised
from fedaigc_server.exact_routes import Endpoint

_LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass(frozen=True)
class Bearer:
    """The two roles' tokens; `repr` shows neither."""

    operator: str = field(repr=False)
    officer: str = field(repr=False)

    def for_operator(self, endpoint: Endpoint) -> Endpoint:
        """`endpoint`, for the operator's token alone."""
        return _guarded(endpoint, self.operator, "operator")

    def for_officer(self, endpoint: Endpoint) -> Endpoint:
        """`endpoint`, for the officer's token alone: the operator may not search content."""
        return _guarded(endpoint, self.officer, "officer")


def _guarded(endpoint: Endpoint, token: str, role: str) -> Endpoint:
    async def checked(request: Request) -> Response:
        # A web page in a browser on this machine can send requests here, but under its own host's name.
        host, _, port = request.headers.get("host", "").rpartition(":")
        if host not in _LOCAL or not port.isdecimal():
            raise NotAuthorised(
                "The admin port answers on loopback only", "the Host header names another", ""
            )
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.encode(), token.encode()):
            raise NotAuthorised(
                f"This needs the {role}'s token",
                "the Authorization header has none, or another",
                f"use {role}.token, which the first start wrote",
            )
        return await endpoint(request)

    return checked
