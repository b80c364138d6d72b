from __future__ import annotations

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fedaigc.errors import Busy, NotAuthorised
from fedaigc_server.exact_routes import ExactRoutes
from tests.server.asgi_call import call


async def _echo(request: Request) -> Response:
    return PlainTextResponse(request.path_params.get("name", "plain"))


async def _refuse(request: Request) -> Response:
    raise NotAuthorised("No", "because", "ask")


async def _busy(request: Request) -> Response:
    raise Busy("Later", "", "", retry_after_s=7)


async def _break(request: Request) -> Response:
    raise RuntimeError("text that must not leave")


APP = ExactRoutes(
    {
        ("GET", "/v1/thing"): _echo,
        ("GET", "/v1/things/(?P<name>[a-z]{1,5})"): _echo,
        ("POST", "/v1/refuse"): _refuse,
        ("GET", "/v1/busy"): _busy,
        ("GET", "/v1/break"): _break,
    }
)


def test_a_listed_path_is_served_with_its_parts() -> None:
    assert call(APP, "GET", "/v1/thing?x=1").body == b"plain"
    assert call(APP, "GET", "/v1/things/abc").body == b"abc"


@pytest.mark.parametrize(
    "target",
    [
        "/v1/thing/",
        "//v1/thing",
        "/v1//thing",
        "/v1/./thing",
        "/v1/x/../thing",
        "/v1/%74hing",
        "/v1%2fthing",
        "/v1/%2e/thing",
        "/V1/thing",
        "/v1/Thing",
        "/v1/thing;a=b",
        "/v1/thing%00",
        "/v1/thing%0a",
        "/v1/things/ABC",
        "/v1/things/abcdef",
        "/v1/things/a%62c",
        "/",
        "",
        "*",
        "http://host/v1/thing",
    ],
)
def test_any_other_spelling_is_not_found(target: str) -> None:
    assert call(APP, "GET", target).status == 404


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS", "PUT", "DELETE", "get", "PATCH", "TRACE"])
def test_another_method_is_refused_and_the_right_one_named(method: str) -> None:
    answer = call(APP, method, "/v1/thing")
    assert answer.status == 405
    assert answer.headers["allow"] == "GET"


def test_an_error_of_ours_becomes_its_status_and_json() -> None:
    answer = call(APP, "POST", "/v1/refuse")
    assert answer.status == 403
    assert answer.json()["error"] == {
        "code": "not_authorised",
        "what": "No",
        "why": "because",
        "do_next": "ask",
    }
    assert call(APP, "GET", "/v1/busy").headers["retry-after"] == "7"


def test_an_unforeseen_error_says_nothing_of_its_text(caplog: pytest.LogCaptureFixture) -> None:
    answer = call(APP, "GET", "/v1/break")
    assert answer.status == 500
    assert b"text that must not leave" not in answer.body
    assert "text that must not leave" not in caplog.text
    assert "RuntimeError" in caplog.text
