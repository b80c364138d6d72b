"""`fedaigc-edge run`: settings reach the daemon, and what is missing is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fedaigc_edge.cli import device
from fedaigc_edge.commands import run as module
from fedaigc_edge.settings import EdgeSettings


def test_flags_reach_the_daemon_and_paths_become_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[EdgeSettings]()
    monkeypatch.setattr(module, "serve", given.append)
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
