from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fedaigc_server.cli import server
from fedaigc_server.commands.options import data_folder, moment, table


def test_columns_are_aligned_and_an_empty_table_says_what_to_do() -> None:
    assert table([("a", None), ("bbb", 2)], ("X", "LONG"), "") == ["X    LONG", "a    -", "bbb  2"]
    assert table([], ("X",), "Nothing yet.") == ["Nothing yet."]


def test_a_missing_moment_is_a_dash() -> None:
    assert moment(None) == "-"
    assert moment(1_790_000_000).startswith("2026-09-2")


def test_the_folder_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert data_folder(Path("here")) == tmp_path / "here"
    assert data_folder(None).is_absolute()


def test_the_environment_names_the_folder(tmp_path: Path) -> None:
    result = CliRunner().invoke(server, ["status"], env={"FEDAIGC_SERVER_DATA": str(tmp_path)})
    assert result.exit_code == 15
    assert str(tmp_path) in result.stderr
