"""`fedaigc-edge run`: settings reach the daemon, and what is missing is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedaigc_edge import node
from fedaigc_edge.banner import show_banner, show_ready_line
from fedaigc_edge.cli import device
from fedaigc_edge.commands import run as module
from fedaigc_edge.settings import EdgeSettings


def test_flags_reach_the_daemon_and_paths_become_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[EdgeSettings]()
    monkeypatch.setattr(module, "serve", lambda settings, as_json, config: given.append(settings))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        device, ["run", "--data", "d", "--port", "0", "--gate", "g.yaml", "--model", "m"]
    )
    assert result.exit_code == 0, result.output
    (settings,) = given
    assert settings.data == tmp_path / "d"
    assert (settings.serve.port, settings.serve.gate, settings.model) == (0, tmp_path / "g.yaml", "m")


def test_a_wrong_setting_is_exit_code_2(tmp_path: Path) -> None:
    result = CliRunner().invoke(device, ["run", "--data", str(tmp_path), "--port", "70000"])
    assert result.exit_code == 2
    assert "0 to 65535" in result.stderr


def test_json_reaches_the_daemon_as_what_it_says_when_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    monkeypatch.setattr(node, "run_device", lambda settings, on_ready, config: said.append(on_ready))
    for arguments in ([], ["--json"]):
        result = CliRunner().invoke(device, ["run", "--data", str(tmp_path), *arguments])
        assert result.exit_code == 0, result.output
    assert said == [show_banner, show_ready_line]


def test_under_json_a_wrong_option_is_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(device, ["run", "--data", str(tmp_path), "--port", "many", "--json"])
    assert (result.exit_code, json.loads(result.stderr)["error"]["code"]) == (2, "settings")
