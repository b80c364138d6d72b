from __future__ import annotations

import base64
import json

import pytest

from fedaigc_server.rounds.round_socket import RoundSocket
from tests.server.asgi_call import Answer, call
from tests.server.rounds.conftest import Learning


def _post(learning: Learning, path: str, body: bytes = b"{}", attempt: str = "1") -> Answer:
    app = RoundSocket(learning.rounds).app()
    return call(app, "POST", path, body, {"fedaigc-attempt": attempt})


def test_the_steps_of_a_round_over_the_socket(learning: Learning) -> None:
    round_id = learning.rounds.create(2, 600)
    learning.site.stores.rounds.change(round_id, attempt=1)
    begun = _post(learning, f"/rounds/{round_id}/begin").json()
    assert begun["planned"] is False
    statuses = json.dumps({"statuses": learning.statuses()}).encode()
    planned = _post(learning, f"/rounds/{round_id}/statuses", statuses).json()
    assert _post(learning, f"/rounds/{round_id}/begin").json()["planned"] is True
    plan = base64.b64decode(planned["plan"])
    for device in learning.devices:
        path = f"/rounds/{round_id}/updates/{learning.flower_id(device)}"
        assert _post(learning, path, device.update(plan)).json()["accepted"]
    assert _post(learning, f"/rounds/{round_id}/close").json()["state"] == "released"


def test_of_a_decline_only_a_known_kind_of_code_is_kept(learning: Learning) -> None:
    round_id, _ = learning.begin()
    first, second = learning.devices
    for device, body in (
        (first, b'{"code":"privacy_budget","what":"words"}'),
        (second, b'{"code":"My Words"}'),
    ):
        _post(learning, f"/rounds/{round_id}/declined/{learning.flower_id(device)}", body)
    reasons = {update.node: update.reason for update in learning.site.stores.rounds.updates(round_id)}
    assert reasons == {first.node: "privacy_budget", second.node: "error"}


@pytest.mark.parametrize("attempt", ["", "x", "-1", "²", "1234567"])
def test_the_attempt_must_be_a_number(learning: Learning, attempt: str) -> None:
    round_id, _ = learning.begin()
    assert _post(learning, f"/rounds/{round_id}/begin", attempt=attempt).status == 400


def test_a_stale_attempt_is_a_conflict(learning: Learning) -> None:
    round_id, _ = learning.begin()
    assert _post(learning, f"/rounds/{round_id}/begin", attempt="7").status == 409


@pytest.mark.parametrize("path", ["/rounds", "/rounds/r-1/begin", "/rounds/r-0123456789abcdef/state"])
def test_nothing_else_is_there(learning: Learning, path: str) -> None:
    assert _post(learning, path).status == 404
