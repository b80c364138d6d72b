from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import SettingsError
from fedaigc_server.commands.start import _settings


def test_options_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    path.write_text(
        'port = 9000\npoll_s = 7\npublic_names = ["file.example.org"]\n[learning]\nmin_pairs = 9\n'
    )
    flags = {"port": 9001, "host": None, "data": tmp_path, "public_names": ()}
    settings = _settings(path, flags)
    assert (settings.port, settings.poll_s, settings.host) == (9001, 7, "0.0.0.0")  # noqa: S104
    assert settings.public_names == ("file.example.org",)
    assert settings.learning.min_pairs == 9


def test_folders_are_absolute_because_children_work_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = _settings(None, {"data": Path("d"), "officer": Path("~/o")})
    assert settings.data == tmp_path / "d"
    assert settings.officer.is_absolute()
    assert "~" not in str(settings.officer)


def test_a_wrong_option_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match="port must be from 0 to 65535"):
        _settings(None, {"port": 70000})
