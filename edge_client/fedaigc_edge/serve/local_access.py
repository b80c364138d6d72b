"""Answer this machine's programs only: no other host, and no web page that found its way to the port."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from fedaigc.errors import SettingsError
from fedaigc_edge.serve.openai_errors import INVALID, answer_of
from fedaigc_edge.serve.plain_answer import send_error


def check_loopback(host: str) -> None:
    """Raise SettingsError unless `host` is a loopback address or name."""
    if not is_loopback(host):
        raise SettingsError(
            f"The device's API cannot listen on {host}",
            "it has no password, so it answers this machine only",
            "use 127.0.0.1 and put your own gateway before it",
        )


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether a host name or address (no port, IPv6 without brackets) is this machine's own."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class LocalAccess:
    """Refuse, before any route, what does not come from a program on this machine.

    A page in a browser can make the browser call 127.0.0.1: it is known by its `Origin`, or, when its own
    name was made to resolve to 127.0.0.1 (DNS rebinding), by the `Host` that it was loaded from.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 403."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        reason = _refusal(scope) if scope["type"] == "http" else None
        if reason is None:
            await self._app(scope, receive, send)
        else:
            await send_error(send, answer_of(403, INVALID, "not_local", reason))


def _refusal(scope: Scope) -> str | None:
    peer = scope.get("client")
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if peer is not None and not is_loopback(peer[0]):
        return "This API answers programs on its own machine only."
    if not hosts or not all(_is_local_url("//" + host.decode("latin-1")) for host in hosts):
        return "The Host header does not name this machine: use http://127.0.0.1 or http://localhost."
    if not all(_is_local_url(origin.decode("latin-1")) for origin in origins):
        return "A web page of another site may not use this API."
    return None


def _is_local_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return "@" not in parts.netloc and is_loopback(parts.hostname or "")
    except ValueError:
        return False
