from __future__ import annotations

import json

from tests.server.commands.conftest import Asked, Run

MADE = {"token": "fedaigc1abc", "expires": 1_790_000_000, "address": "dc.example.org:8443"}


def test_the_token_comes_with_the_command_for_the_device(run: Run, asked: Asked) -> None:
    shown = run(MADE, "token", "create", "--region", "eu", "--hours", "2").stdout
    assert asked == [("POST", "/v1/tokens", {"region": "eu", "hours": 2.0, "role": "edge"})]
    assert shown.splitlines()[0] == "fedaigc1abc"
    assert "fedaigc-edge join https://dc.example.org:8443" in shown


def test_json_is_the_answer_as_it_is(run: Run) -> None:
    assert json.loads(run(MADE, "token", "create", "--json").stdout) == MADE
