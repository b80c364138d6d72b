"""Shared options: what is given wins, what is not given is left to environment, file and defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc_edge.commands.options import settings_of


def test_what_is_not_given_is_left_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDAIGC_EDGE_SERVE_PORT", "9001")
    monkeypatch.setenv("FEDAIGC_EDGE_MODEL", "from-env")
    settings = settings_of(None, port=None, model="from-flag")
    assert (settings.serve.port, settings.model) == (9001, "from-flag")


def test_paths_become_absolute_and_the_home_is_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    settings = settings_of(None, data=Path("d"), models=Path("~/m"))
    assert (settings.data, settings.models) == (tmp_path / "d", tmp_path / "home" / "m")
