from __future__ import annotations

from typing import Any

import pytest

from fedaigc.join_token import JoinToken
from fedaigc_server.enrolment import EnrolRequest
from tests.server.admin.conftest import Admin
from tests.server.conftest import CA, NOW
from tests.server.fake_device import FakeDevice


def test_a_token_says_where_whom_to_trust_and_until_when(admin: Admin) -> None:
    made = admin.operator("POST", "/v1/tokens", {"region": "eu", "hours": 2, "role": "edge"}).json()
    token = JoinToken.decode(made["token"])
    assert (token.address, token.ca_sha256, token.region) == ("dc.example.org:8443", CA, "eu")
    assert token.expires == made["expires"] == NOW + 7200
    device = FakeDevice()
    admin.site.enrolment.enrol(EnrolRequest.read(device.enrol_body(token)))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"region": "", "hours": 1, "role": "edge"},
        {"region": "a\nb", "hours": 1, "role": "edge"},
        {"region": "eu", "hours": 1, "role": "admin"},
        {"region": "eu", "hours": -1, "role": "edge"},
        {"region": "eu", "hours": 10_000, "role": "edge"},
        {"region": "eu", "hours": True, "role": "edge"},
    ],
)
def test_an_odd_token_is_refused(admin: Admin, body: dict[str, Any]) -> None:
    assert admin.operator("POST", "/v1/tokens", body).status == 400


def test_nodes_are_listed_without_their_keys(admin: Admin) -> None:
    device = admin.site.enrolled("laptop")
    (shown,) = admin.operator("GET", "/v1/nodes").json()["nodes"]
    assert (shown["node"], shown["name"], shown["standing"]) == (device.node, "laptop", "active")
    assert device.signing.public.text() not in str(shown)


def test_a_node_is_revoked_for_good(admin: Admin) -> None:
    device = admin.site.enrolled()
    path = f"/v1/nodes/{device.node}/revoke"
    for _ in range(2):
        assert admin.operator("POST", path, {"reason": "stolen"}).json()["standing"] == "revoked"
    (shown,) = admin.operator("GET", "/v1/nodes").json()["nodes"]
    assert (shown["standing"], shown["reason"]) == ("revoked", "stolen")
    assert admin.site.flower.nodes == {}
    unknown = admin.operator("POST", "/v1/nodes/n-0000000000000000/revoke", {"reason": ""})
    assert unknown.status == 400
    assert "node list" in unknown.json()["error"]["do_next"]


def test_a_round_is_begun_listed_and_shown(admin: Admin) -> None:
    round_id = admin.operator("POST", "/v1/rounds", {"min_nodes": 2, "deadline_s": 60}).json()["round"]
    (listed,) = admin.operator("GET", "/v1/rounds").json()["rounds"]
    shown = admin.operator("GET", f"/v1/rounds/{round_id}").json()
    assert listed["round"] == shown["round"] == round_id
    assert (shown["state"], shown["policy"], shown["updates"]) == ("planned", None, [])
    assert "updates" not in listed
    again = admin.operator("POST", "/v1/rounds", {"min_nodes": 2, "deadline_s": 60})
    assert again.status == 409
    assert round_id in again.json()["error"]["why"]


@pytest.mark.parametrize(
    "body", [{}, {"min_nodes": 0, "deadline_s": 60}, {"min_nodes": 1, "deadline_s": 0}, {"min_nodes": "1"}]
)
def test_an_odd_round_is_refused(admin: Admin, body: dict[str, Any]) -> None:
    assert admin.operator("POST", "/v1/rounds", body).status == 400
    assert admin.operator("GET", "/v1/rounds").json()["rounds"] == []


def test_an_unknown_round_is_told(admin: Admin) -> None:
    assert admin.operator("GET", "/v1/rounds/r-0123456789abcdef").status == 400


def test_there_are_no_policies_before_the_first_round(admin: Admin) -> None:
    assert admin.operator("GET", "/v1/policies").json() == {"policies": []}


def test_a_huge_body_is_refused(admin: Admin) -> None:
    assert admin.operator("POST", "/v1/tokens", {"region": "x" * 100_000}).status == 400
