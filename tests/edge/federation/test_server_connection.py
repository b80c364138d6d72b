"""The device's signed calls over real TLS: signed, pinned, bounded, with the server's own errors."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc.errors import (
    FedaigcError,
    IdentityError,
    LedgerError,
    NotAuthorised,
    Unavailable,
    VerificationFailed,
)
from fedaigc.request_signature import check_signed
from fedaigc.signing import SigningKey
from fedaigc_edge.federation.server_connection import ServerConnection, pinned_context
from tests.edge.enrolled import NODE
from tests.edge.tls_server import make_ca, tls_server

KEY = SigningKey.generate()
Use = Callable[[ServerConnection], Any]


def _call(
    tmp_path: Path,
    answer: Callable[[Request, bytes], Response],
    use: Use,
    heard: list[NotAuthorised] | None = None,
    now: Callable[[], float] = time.time,
) -> tuple[Any, list[tuple[str, str, dict[str, str], bytes]]]:
    ca = make_ca(tmp_path / "ca")

    async def go(address: str) -> Any:
        told = heard.append if heard is not None else None
        server = ServerConnection(address, ca.ca_file, NODE, KEY, now, told)
        try:
            return await use(server)
        finally:
            await server.close()

    with tls_server(ca, answer) as (address, seen):
        return asyncio.run(go(address)), seen.requests


def test_a_post_is_signed_over_exactly_what_is_sent(tmp_path: Path) -> None:
    result, seen = _call(
        tmp_path,
        lambda request, body: JSONResponse({"got": json.loads(body)}),
        lambda s: s.post("/v1/x?a=1", {"b": 2}),
    )
    assert result == {"got": {"b": 2}}
    method, path, headers, body = seen[0]
    check_signed(KEY.public, headers, method, path, body, int(time.time()))


def test_a_get_gives_bytes_and_204_gives_none(tmp_path: Path) -> None:
    result, seen = _call(tmp_path, lambda r, b: Response(b"\x00blob"), lambda s: s.get("/v1/blobs/aa"))
    assert result == b"\x00blob"
    method, path, headers, body = seen[0]
    check_signed(KEY.public, headers, method, path, body, int(time.time()))
    assert _call(tmp_path, lambda r, b: Response(status_code=204), lambda s: s.get("/v1/p"))[0] is None


def test_the_servers_error_comes_back_as_itself(tmp_path: Path) -> None:
    error = LedgerError("Sequence 3 is taken", "other bytes are there", "look at the outbox")
    with pytest.raises(LedgerError) as caught:
        _call(
            tmp_path,
            lambda r, b: JSONResponse({"error": error.as_json()}, 409),
            lambda s: s.post("/v1/x", {}),
        )
    assert str(caught.value) == str(error)


def test_a_refusal_of_the_node_is_told_once(tmp_path: Path) -> None:
    error = NotAuthorised("This node was revoked", "lost", "ask the operator for a new token")
    heard: list[NotAuthorised] = []
    with pytest.raises(NotAuthorised):
        _call(
            tmp_path,
            lambda r, b: JSONResponse({"error": error.as_json()}, 403),
            lambda s: s.post("/v1/x", {}),
            heard,
        )
    assert [str(one) for one in heard] == [str(error)]


def test_a_wrong_clock_is_no_verdict_on_the_node(tmp_path: Path) -> None:
    error = NotAuthorised("This device's clock is 9000 s behind", "", "set the clock")
    heard: list[NotAuthorised] = []
    with pytest.raises(Unavailable, match="clock"):
        _call(
            tmp_path,
            lambda r, b: JSONResponse({"error": error.as_json()}, 403),
            lambda s: s.post("/v1/x", {}),
            heard,
            now=lambda: time.time() - 9000,
        )
    assert heard == []


def test_an_answer_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VerificationFailed, match="too large"):
        _call(tmp_path, lambda r, b: Response(b"x" * 5000), lambda s: s.get("/v1/blobs/aa", limit=4096))


def test_an_answer_that_is_no_json_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VerificationFailed):
        _call(tmp_path, lambda r, b: Response(b"[1]"), lambda s: s.post("/v1/x", {}))


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with pytest.raises(FedaigcError) as caught:
        _call(
            tmp_path,
            lambda r, b: Response(status_code=307, headers={"location": "https://127.0.0.1:1/"}),
            lambda s: s.get("/v1/x"),
        )
    assert "307" in str(caught.value)


def test_a_server_with_another_ca_gets_nothing(tmp_path: Path) -> None:
    ours, theirs = make_ca(tmp_path / "ours"), make_ca(tmp_path / "theirs")

    async def go(address: str) -> None:
        await ServerConnection(address, ours.ca_file, NODE, KEY).post("/v1/x", {"secret": 1})

    with (
        tls_server(theirs, lambda r, b: JSONResponse({})) as (address, seen),
        pytest.raises(VerificationFailed, match="does not prove who it is"),
    ):
        asyncio.run(go(address))
    assert seen.requests == []


def test_a_server_that_is_down_is_unavailable(tmp_path: Path) -> None:
    ca = make_ca(tmp_path)
    server = ServerConnection("127.0.0.1:9", ca.ca_file, NODE, KEY)
    with pytest.raises(Unavailable, match="nothing is lost"):
        asyncio.run(server.get("/v1/x"))


def test_a_missing_or_damaged_ca_is_an_identity_error(tmp_path: Path) -> None:
    with pytest.raises(IdentityError):
        pinned_context(tmp_path / "none")
    (tmp_path / "ca.crt").write_text("nonsense")
    with pytest.raises(IdentityError):
        pinned_context(tmp_path / "ca.crt")
