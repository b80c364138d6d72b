from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedaigc.errors import RoundFailed, Unavailable
from fedaigc_server.cli import server
from fedaigc_server.commands import admin_call
from fedaigc_server.commands import round as module

ROUND = "r-0123456789abcdef"


def _found(state: str, reason: str = "") -> dict[str, Any]:
    update = {"node": "n-0123456789abcdef", "verdict": "accepted", "reason": "", "epsilon": 0.412}
    return {"round": ROUND, "state": state, "reason": reason, "policy": 3, "updates": [update]}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the admin port answers, one after the other; an exception is raised."""
    queue: list[Any] = []

    def ask(data: Path, method: str, path: str, body: Any = None) -> Any:
        answer = queue.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(admin_call, "ask_admin", ask)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.0)
    return queue


def test_waiting_ends_with_the_round_and_survives_a_restart_of_the_server(answers: list[Any]) -> None:
    answers += [{"round": ROUND}, _found("querying"), Unavailable("restarts", "", ""), _found("released")]
    result = CliRunner().invoke(server, ["round", "run", "--json"])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["state"] == "released"


def test_a_failed_round_has_its_own_exit_code_and_still_prints_itself(answers: list[Any]) -> None:
    answers += [{"round": ROUND}, _found("failed", "too few")]
    result = CliRunner().invoke(server, ["round", "run"])
    assert result.exit_code == 14
    assert "too few" in result.stderr
    assert "epsilon 0.412" in result.stdout


def test_without_waiting_the_name_is_all(answers: list[Any]) -> None:
    answers += [{"round": ROUND}]
    result = CliRunner().invoke(server, ["round", "run", "--no-wait", "--json"])
    assert json.loads(result.stdout) == {"round": ROUND}


def test_a_malformed_name_is_refused_before_anything_is_asked(answers: list[Any]) -> None:
    result = CliRunner().invoke(server, ["round", "show", "../x"])
    assert result.exit_code == 2
    assert "fedaigc-server round list" in result.stderr
    assert "node list" not in result.stderr


def test_the_reason_of_a_failed_round_is_told_once(answers: list[Any]) -> None:
    reason = str(RoundFailed("1 usable updates came and 2 are needed", "one was off", "run another round"))
    answers += [{"round": ROUND}, _found("failed", reason)]
    result = CliRunner().invoke(server, ["round", "run"])
    assert result.output.count("1 usable updates came") == 1
    assert result.stderr.count("Why:") == result.stderr.count("Next:") == 1
    answers += [_found("failed", reason)]
    assert CliRunner().invoke(server, ["round", "show", ROUND]).output.count("1 usable updates came") == 1


def test_under_json_nothing_but_the_round_and_its_error_is_printed(answers: list[Any]) -> None:
    answers += [{"round": ROUND}, _found("training"), _found("failed", "too few")]
    result = CliRunner().invoke(server, ["round", "run", "--json"])
    assert json.loads(result.stdout)["state"] == "failed"
    assert "too few" in json.loads(result.stderr)["error"]["what"]


def test_a_round_that_outlasts_the_wait_is_not_called_failed(
    answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OVERTIME_S", -1e6)
    answers += [{"round": ROUND}, _found("training")]
    result = CliRunner().invoke(server, ["round", "run"])
    assert result.exit_code == 14
    assert "has not ended" in result.stderr
    assert f"round show {ROUND}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (("--min-nodes", "0"), "1<=x<=100000"),
        (("--deadline", "86401"), "1<=x<=86400"),
        (("--deadline", "soon"), "integer"),
    ],
)
def test_a_number_out_of_range_is_a_usage_error_that_names_the_range(
    answers: list[Any], arguments: tuple[str, ...], allowed: str
) -> None:
    result = CliRunner().invoke(server, ["round", "run", *arguments])
    assert result.exit_code == 2
    assert allowed in result.stderr
