"""The device's signed calls to its server, over TLS that trusts the enrolled CA and nothing else."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx

from fedaigc.canonical import Json, canonical_bytes, parse_record
from fedaigc.errors import IdentityError, NotAuthorised, Unavailable, VerificationFailed
from fedaigc.identifiers import NodeId
from fedaigc.request_signature import MAX_CLOCK_SKEW_S, signed_headers
from fedaigc.signing import SigningKey
from fedaigc_edge.federation.error_answer import error_from_answer

MAX_ANSWER_BYTES = 4 << 20
"""A JSON answer; receipts for a full batch are well below it."""
MAX_BLOB_BYTES = 65 << 20
"""An adapter may have 64 MiB."""
CONNECT_S = 10.0
SILENCE_S = 60.0
"""A server that sends nothing for this long is taken as gone."""
WHOLE_CALL_S = 600.0
"""No single call may take longer, however slowly bytes come."""


def pinned_context(ca_file: Path) -> ssl.SSLContext:
    """TLS 1.2 or newer, trusting only the CA in `ca_file`, host name checked; raises IdentityError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise IdentityError(
            f"The server's certificate {ca_file} cannot be read",
            type(error).__name__,
            f"run: fedaigc-edge join --data {ca_file.parent} --token TOKEN, with the token of then or a new"
            " one; the device stays the same node",
        ) from error
    return context


def connection_error(error: httpx.HTTPError, address: str) -> Unavailable | VerificationFailed:
    """What a failed connection means: unreachable, or somebody else answering."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return VerificationFailed(
            f"The server at {address} does not prove who it is",
            "its certificate is not from the CA in our token, has expired, or names another host",
            "check the address; if the server was set up anew, ask the operator for a new token",
        )
    return Unavailable(
        f"The server at {address} cannot be reached",
        text[:200] or type(error).__name__,
        "check the network and that `fedaigc-server start` runs; nothing is lost meanwhile",
    )


class ServerConnection:
    """One device's calls to one server. Retries are the caller's; every call is bounded in time and size.

    Args:
        address: `host:port`.
        ca_file: the enrolled CA, PEM.
        node, key: who signs.
        now: Unix seconds.
        on_refused: told of every NotAuthorised that is the server's verdict on this node.
    """

    def __init__(
        self,
        address: str,
        ca_file: Path,
        node: NodeId,
        key: SigningKey,
        now: Callable[[], float] = time.time,
        on_refused: Callable[[NotAuthorised], None] | None = None,
    ) -> None:
        self.address = address
        self._node = node
        self._key = key
        self._now = now
        self._on_refused = on_refused
        self._http = httpx.AsyncClient(
            base_url=f"https://{address}",
            verify=pinned_context(ca_file),
            timeout=httpx.Timeout(SILENCE_S, connect=CONNECT_S),
            trust_env=False,
            follow_redirects=False,
        )

    async def post(self, path: str, body: dict[str, Json], limit: int = MAX_ANSWER_BYTES) -> dict[str, Any]:
        """Send a JSON object, return the answered one.

        Raises Unavailable, VerificationFailed (TLS, malformed answer), NotAuthorised, or the server's error.
        """
        answer = await self._call("POST", path, canonical_bytes(body), limit)
        return {} if answer is None else parse_record(answer, limit)

    async def get(self, path: str, limit: int = MAX_BLOB_BYTES) -> bytes | None:
        """Fetch bytes, None for 204; raises like `post`."""
        return await self._call("GET", path, b"", limit)

    async def close(self) -> None:
        """Close the connections; calls after it fail."""
        await self._http.aclose()

    async def _call(self, method: str, path: str, body: bytes, limit: int) -> bytes | None:
        headers = signed_headers(self._key, self._node, method, path, body, int(self._now()))
        if body:
            headers["content-type"] = "application/json"
        try:
            async with asyncio.timeout(WHOLE_CALL_S):
                async with self._http.stream(method, path, content=body, headers=headers) as answer:
                    content = await _bounded(answer, limit)
        except (httpx.HTTPError, TimeoutError) as error:
            failure = (
                error if isinstance(error, httpx.HTTPError) else httpx.ReadTimeout("the call took too long")
            )
            raise connection_error(failure, self.address) from error
        if answer.status_code == 204:
            return None
        if answer.status_code != 200:
            self._refuse(answer, content, f"{method} {path.partition('?')[0]}")
        return content

    def _refuse(self, answer: httpx.Response, content: bytes, asked: str) -> None:
        error = error_from_answer(answer.status_code, content, asked)
        if isinstance(error, NotAuthorised):
            # A wrong clock is refused too, but it is no verdict on the node: it mends itself.
            skew = self._clock_skew(answer.headers.get("date", ""))
            if skew is not None and abs(skew) > MAX_CLOCK_SKEW_S:
                raise Unavailable(error.what, error.why, error.do_next)
            if self._on_refused is not None:
                self._on_refused(error)
        raise error

    def _clock_skew(self, date: str) -> float | None:
        try:
            return self._now() - parsedate_to_datetime(date).timestamp()
        except (ValueError, TypeError):
            return None


async def _bounded(answer: httpx.Response, limit: int) -> bytes:
    content = bytearray()
    async for piece in answer.aiter_bytes():
        content += piece
        if len(content) > limit:
            raise VerificationFailed(
                "The server's answer is too large",
                f"more than {limit} bytes",
                "install the same version on both",
            )
    return bytes(content)
