from __future__ import annotations

import json

import pytest

from tests.server.commands.conftest import Asked, Run

MADE = {"token": "fedaigc1abc", "expires": 1_790_000_000, "address": "dc.example.org:8443"}


def test_the_token_comes_with_the_command_for_the_device(run: Run, asked: Asked) -> None:
    shown = run(MADE, "token", "create", "--region", "eu", "--hours", "2").stdout
    assert asked == [("POST", "/v1/tokens", {"region": "eu", "hours": 2.0, "role": "edge"})]
    assert shown.splitlines()[0] == "fedaigc1abc"
    assert "fedaigc-edge join https://dc.example.org:8443" in shown


def test_json_is_the_answer_as_it_is(run: Run) -> None:
    assert json.loads(run(MADE, "token", "create", "--json").stdout) == MADE


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (("--hours", "0"), "0<x<=720"),
        (("--hours", "721"), "0<x<=720"),
        (("--hours", "nan"), "0<x<=720"),
        (("--hours", "long"), "not a valid float"),
        (("--region", ""), "1 to 64 printable characters"),
        (("--region", "x" * 65), "1 to 64 printable characters"),
        (("--region", "a\nb"), "1 to 64 printable characters"),
    ],
)
def test_a_wrong_option_is_a_usage_error_that_names_what_is_allowed(
    run: Run, asked: Asked, arguments: tuple[str, ...], allowed: str
) -> None:
    result = run(MADE, "token", "create", *arguments)
    assert result.exit_code == 2
    assert allowed in result.stderr
    assert asked == []
