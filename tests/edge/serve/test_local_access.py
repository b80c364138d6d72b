"""Only programs on this machine get in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fedaigc.errors import SettingsError
from fedaigc_edge.serve.local_access import LocalAccess, check_loopback


def status(headers: list[tuple[bytes, bytes]], peer: tuple[str, int] | None = ("127.0.0.1", 1)) -> int:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    scope = {"type": "http", "headers": headers, "client": peer}
    asyncio.run(LocalAccess(app)(scope, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize("host", [b"127.0.0.1:8080", b"localhost", b"LOCALHOST:1", b"[::1]:8080"])
def test_this_machines_names_are_accepted(host: bytes) -> None:
    assert status([(b"host", host)]) == 200


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example",
        b"127.0.0.1.evil.example",
        b"localhost.evil.example:8080",
        b"192.168.0.7:8080",
        b"0.0.0.0:8080",
        b"evil@127.0.0.1",
        b"127.0.0.1@evil.example",
        b"",
        b"[::1",
        b"2130706433",
    ],
)
def test_a_rebound_name_is_refused(host: bytes) -> None:
    assert status([(b"host", host)]) == 403


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (b"http://localhost:3000", 200),
        (b"http://127.0.0.1", 200),
        (b"https://evil.example", 403),
        (b"http://localhost.evil.example", 403),
        (b"null", 403),
        (b"file://", 403),
        (b"", 403),
    ],
)
def test_a_web_page_of_another_site_is_refused(origin: bytes, expected: int) -> None:
    assert status([(b"host", b"127.0.0.1"), (b"origin", origin)]) == expected


def test_every_host_header_counts_and_one_is_needed() -> None:
    assert status([(b"host", b"127.0.0.1"), (b"host", b"evil.example")]) == 403
    assert status([]) == 403


def test_another_machine_is_refused_and_a_unix_socket_has_no_peer() -> None:
    assert status([(b"host", b"127.0.0.1")], ("10.0.0.5", 1)) == 403
    assert status([(b"host", b"127.0.0.1")], None) == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", ""])  # noqa: S104
def test_listening_elsewhere_is_refused(host: str) -> None:
    with pytest.raises(SettingsError):
        check_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_listening_on_loopback_is_accepted(host: str) -> None:
    check_loopback(host)
