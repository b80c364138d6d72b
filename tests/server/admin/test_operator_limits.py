"""The limits that the command line tells are the ones that the admin port enforces."""

from __future__ import annotations

from typing import Any

import pytest

from fedaigc_server.admin import operator_limits as limits
from tests.server.admin.conftest import Admin


@pytest.mark.parametrize(("beyond", "status"), [(0, 200), (1, 400)])
def test_a_token_of_the_longest_life_and_region_is_made_and_none_beyond(
    admin: Admin, beyond: int, status: int
) -> None:
    longest: dict[str, Any] = {
        "region": "x" * limits.MAX_REGION_CHARS,
        "hours": limits.MAX_TOKEN_HOURS,
        "role": "edge",
    }
    more = {"region": longest["region"] + "x" * beyond, "hours": longest["hours"] + beyond}
    for change in ({"region": more["region"]}, {"hours": more["hours"]}):
        assert admin.operator("POST", "/v1/tokens", longest | change).status == status


@pytest.mark.parametrize(
    ("name", "most"), [("min_nodes", limits.MAX_NODES), ("deadline_s", limits.MAX_DEADLINE_S)]
)
def test_the_largest_round_is_begun_and_none_beyond(admin: Admin, name: str, most: int) -> None:
    wish = {"min_nodes": 1, "deadline_s": 60}
    assert admin.operator("POST", "/v1/rounds", wish | {name: most + 1}).status == 400
    assert admin.operator("POST", "/v1/rounds", wish | {name: most}).status == 200


def test_a_reason_of_the_longest_length_is_kept_and_none_beyond(admin: Admin) -> None:
    path = f"/v1/nodes/{admin.site.enrolled().node}/revoke"
    reason = "x" * limits.MAX_REASON_CHARS
    assert admin.operator("POST", path, {"reason": reason + "x"}).status == 400
    assert admin.operator("POST", path, {"reason": reason}).status == 200
