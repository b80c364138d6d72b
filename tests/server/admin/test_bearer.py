from __future__ import annotations

import pytest

from fedaigc_server.admin.bearer import Bearer
from tests.server.admin.conftest import OFFICER, OPERATOR, Admin
from tests.server.asgi_call import call

OPERATOR_PATHS = [
    ("POST", "/v1/tokens"), ("GET", "/v1/nodes"), ("POST", "/v1/nodes/n-0123456789abcdef/revoke"),
    ("GET", "/v1/status"), ("POST", "/v1/rounds"), ("GET", "/v1/rounds"),
    ("GET", "/v1/rounds/r-0123456789abcdef"), ("GET", "/v1/policies"),
]  # fmt: skip
OFFICER_PATHS = [
    ("POST", "/v1/officer/search"), ("GET", "/v1/officer/entries/0"), ("GET", "/v1/officer/checkpoint"),
    ("GET", "/v1/officer/consistency?first=0&second=0"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), OPERATOR_PATHS + OFFICER_PATHS)
@pytest.mark.parametrize("header", ["", "Bearer ", "Bearer wrong", f"Basic {OPERATOR}", OPERATOR, "Bearer ²"])
def test_without_the_right_token_nothing_is_answered(
    admin: Admin, method: str, path: str, header: str
) -> None:
    answer = call(admin.app, method, path, b"{}", {"authorization": header})
    assert answer.status == 403
    assert "token" in answer.json()["error"]["do_next"]


@pytest.mark.parametrize(("method", "path"), OPERATOR_PATHS)
def test_the_officer_is_not_the_operator(admin: Admin, method: str, path: str) -> None:
    assert admin.operator(method, path, {}, OFFICER).status == 403


@pytest.mark.parametrize(("method", "path"), OFFICER_PATHS)
def test_the_operator_cannot_search(admin: Admin, method: str, path: str) -> None:
    assert admin.operator(method, path, {}).status == 403


@pytest.mark.parametrize(
    "host", ["evil.example.org:8444", "127.0.0.1", "", "localhost:x", "127.0.0.1.evil:8444"]
)
def test_a_web_page_under_another_name_is_not_served(admin: Admin, host: str) -> None:
    headers = {"authorization": f"Bearer {OPERATOR}", "host": host}
    answer = call(admin.app, "GET", "/v1/status", b"", headers)
    assert answer.status == 403
    assert "loopback" in answer.json()["error"]["what"]


@pytest.mark.parametrize("host", ["127.0.0.1:8444", "localhost:8444", "[::1]:8444"])
def test_loopback_names_are_served(admin: Admin, host: str) -> None:
    headers = {"authorization": f"Bearer {OPERATOR}", "host": host}
    assert call(admin.app, "GET", "/v1/status", b"", headers).status == 200


def test_repr_shows_no_token() -> None:
    assert "secret" not in repr(Bearer("secret-1", "secret-2"))
