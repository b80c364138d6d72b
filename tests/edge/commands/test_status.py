"""`fedaigc-edge status`: of a running, a resting and an unknown device."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from fedaigc.errors import NotAuthorised
from fedaigc_edge.cli import device
from fedaigc_edge.standing import StandingRecord
from tests.edge.commands.running_daemon import STATUS, running_daemon
from tests.edge.enrolled import NODE, enrolled


def test_a_running_device_shows_what_the_daemon_says(tmp_path: Path) -> None:
    with running_daemon(tmp_path):
        shown = CliRunner().invoke(device, ["status", "--data", str(tmp_path)])
        as_json = CliRunner().invoke(device, ["status", "--data", str(tmp_path), "--json"])
    assert (shown.exit_code, as_json.exit_code) == (0, 0)
    assert json.loads(as_json.stdout) == STATUS
    for part in (NODE, "reachable", "1 waiting, 5 receipts", "epsilon left 1.5", "connected"):
        assert part in shown.stdout


def test_a_resting_device_shows_what_its_folder_says_and_exits_15(tmp_path: Path) -> None:
    enrolled(tmp_path)
    StandingRecord(tmp_path).revoked(NotAuthorised("Revoked", "lost", "ask for a new token"))
    result = CliRunner().invoke(device, ["status", "--data", str(tmp_path), "--json"])
    found = json.loads(result.stdout)
    assert result.exit_code == 15
    assert (found["node"], found["running"], found["standing"]) == (NODE, False, "revoked")
    assert "fedaigc-edge run" in result.stderr
    lines = CliRunner().invoke(device, ["status", "--data", str(tmp_path)])
    assert "ask for a new token" in lines.stdout


def test_a_folder_that_never_joined_is_exit_code_4(tmp_path: Path) -> None:
    result = CliRunner().invoke(device, ["status", "--data", str(tmp_path)])
    assert result.exit_code == 4
    assert "fedaigc-edge join" in result.stderr


def test_after_leave_it_advises_to_join_not_to_run(tmp_path: Path) -> None:
    enrolled(tmp_path)
    StandingRecord(tmp_path).left()
    result = CliRunner().invoke(device, ["status", "--data", str(tmp_path)])
    assert result.exit_code == 15
    assert "fedaigc-edge join" in result.stderr
    assert "fedaigc-edge run" not in result.output
