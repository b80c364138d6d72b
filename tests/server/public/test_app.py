"""Everything that is not on the list does not exist, however it is spelt."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fedaigc_server import listeners
from fedaigc_server.exact_routes import ExactRoutes
from fedaigc_server.public.flower_guard import FLEET_PATHS
from tests.server.asgi_call import call
from tests.server.public.conftest import Public
from tests.server.public.raw_server import exchange, listening, status

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")


def flower_paths() -> list[str]:
    """Every route of the installed Flower's own application, docs and health included."""
    from flwr.superlink.main import create_app

    routes = [context.route for context in iter_route_contexts(create_app().routes)]
    paths = {route.path for route in routes if isinstance(route, APIRoute)}
    return sorted(paths | {"/docs", "/openapi.json", "/redoc", "/docs/oauth2-redirect"})


def spellings(path: str) -> Iterator[str]:
    """Other ways to write a path that some server somewhere takes for the same one."""
    head, _, last = path.rpartition("/")
    encoded = "".join(f"%{ord(letter):02x}" for letter in last[:1])
    yield from (f"/{path}", f"{path}/", f"{path}//", path.upper(), f"{head}/./{last}", f"{head}//{last}")
    yield from (f"{head}/x/../{last}", f"{head}/x/%2e%2e/{last}", f"{head}/%2e/{last}", f"/.{path}")
    yield from (f"{head}/{encoded}{last[1:]}", path.replace("/", "%2f"), path.replace("/", "%2F", 1))
    yield from (f"{path}%00", f"{path}%20", f"{path};x", f"{path}%3f", f"{path}%23", f"{path}.", path[1:])
    yield from (
        path.replace("/", "\\"),
        path.replace("/", "%5c"),
        f"/v1/fleet/..{path}",
        f"/v1/fleet/%2e%2e{path}",
    )
    yield from (f"/v1/fleet/activate-node/..{path}", f"/v1/fleet/activate-node%2f..%2f..{path}")
    yield from (f"http://127.0.0.1:8000{path}", f"/%252e%252e{path}", f"/..{path}")


FLOWER = flower_paths()


def test_flower_really_has_the_routes_that_we_must_keep_shut() -> None:
    assert {"/v1/control/start-run", "/v1/runtime/acquire-task", "/v1/fleet/register-node"} <= set(FLOWER)
    assert set(FLOWER) >= FLEET_PATHS, "a listed path that Flower does not have"


@pytest.mark.parametrize("path", FLOWER)
def test_no_route_of_flower_is_reached_but_those_on_the_list(public: Public, path: str) -> None:
    headers = public.flower_headers()
    for method in METHODS:
        answer = call(public.app, method, path, headers=headers)
        if path in FLEET_PATHS and method == "POST":
            assert answer.status == 200
        elif path == "/health" and method == "GET":
            assert answer.json()["status"] == "ok"
        else:
            assert answer.status in (404, 405), (method, path)
    forwarded = [seen[1] for seen in public.superlink.seen]
    assert forwarded == ([path] if path in FLEET_PATHS else [])


@pytest.mark.parametrize("path", FLOWER)
def test_no_other_spelling_of_a_flower_route_is_reached(public: Public, path: str) -> None:
    headers = public.flower_headers()
    for target in spellings(path):
        for method in ("POST", "GET"):
            assert call(public.app, method, target, headers=headers).status == 404, (method, target)
    assert public.superlink.seen == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/tokens",
        "/v1/nodes",
        "/v1/status",
        "/v1/rounds",
        "/v1/officer/search",
        "/v1/officer/checkpoint",
        "/",
    ],
)
def test_the_admin_api_is_not_on_the_public_port(public: Public, path: str) -> None:
    for method in METHODS:
        assert call(public.app, method, path).status == 404


def test_raw_requests_that_other_servers_would_bend_into_shape_reach_nothing(public: Public) -> None:
    head = b"".join(
        f"{name}: {value}\r\n".encode()
        for name, value in {**public.flower_headers(), "Host": "x", "Content-Length": "0"}.items()
    )
    start = b"/v1/control/start-run"
    with listening(public.app) as port:
        for target in (
            start,
            b"http://127.0.0.1:8000" + start,
            b"https://x" + start,
            b"//v1/control/start-run",
            b"/v1/fleet/../control/start-run",
            b"/v1/fleet/%2e%2e/control/start-run",
            b"/v1/fleet/..%2fcontrol/start-run",
            b"/v1/fleet/activate-node/../../control/start-run",
            b"*",
            b"127.0.0.1:8000",
            b"/v1/control/start-run#/v1/fleet/get-run",
            b"\\v1\\control\\start-run",
        ):
            answer = exchange(port, b"POST " + target + b" HTTP/1.1\r\n" + head + b"\r\n")
            assert status(answer) in (400, 404), target
        absolute = exchange(port, b"POST http://x/v1/fleet/get-run HTTP/1.1\r\n" + head + b"\r\n")
        assert status(absolute) == 404, "the guard forwards a path as it came, or not at all"
    assert public.superlink.seen == []


SMUGGLED = b"POST /v1/control/start-run HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length\x00: 5\r\n",
    ],
)
def test_a_body_with_two_readings_is_refused_and_the_line_closed(public: Public, framing: bytes) -> None:
    key = public.flower_headers()["flwr-public-key"].encode()
    request = (
        b"POST /v1/fleet/get-run HTTP/1.1\r\nHost: x\r\nflwr-public-key: " + key + b"\r\n" + framing + b"\r\n"
    )
    with listening(public.app) as port:
        answer = exchange(port, request + b"0\r\n\r\n" + SMUGGLED)
    assert status(answer) in (400, 501), framing
    assert b"connection: close" in answer.lower()
    assert public.superlink.seen == []


def test_a_head_without_end_is_cut_off(public: Public) -> None:
    with listening(public.app) as port:
        answer = exchange(port, b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000)
    assert status(answer) in (400, 431)


def test_a_head_that_drips_in_is_cut_off(public: Public, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "HEAD_TIMEOUT_S", 0.3)
    whole = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    with listening(public.app) as port:
        for first in (b"", whole):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
                line.sendall(first)
                if first:
                    answer = b""
                    while not answer.endswith(b"}"):
                        answer += line.recv(65536)
                line.sendall(b"GET /health HTTP/1.1\r\nX: ")
                assert line.recv(65536) == b"", "an unfinished head must not hold a connection"


def test_a_slow_answer_is_not_cut_off_by_the_heads_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "HEAD_TIMEOUT_S", 0.2)

    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.6)
        return PlainTextResponse("done")

    with listening(ExactRoutes({("GET", "/slow"): slow})) as port:
        answer = exchange(port, b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status(answer) == 200


def test_a_plain_request_still_works(public: Public) -> None:
    with listening(public.app) as port:
        answer = exchange(port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status(answer) == 200
    assert b"server:" not in answer.lower()
