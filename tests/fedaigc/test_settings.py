from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fedaigc.errors import SettingsError
from fedaigc.settings import load_settings


@dataclass(frozen=True)
class Inner:
    ratio: float = 0.5


@dataclass(frozen=True)
class Example:
    name: str = "edge"
    port: int = 8080
    data: Path = Path("data")
    note: str | None = None
    names: tuple[str, ...] = ()
    on: bool = True
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise ValueError("port must be 0 to 65535")


def _load(tmp_path: Path, text: str) -> Example:
    path = tmp_path / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(Example, path)


def test_without_a_file_the_defaults_hold() -> None:
    assert load_settings(Example, None) == Example()


def test_every_kind_of_value_is_read(tmp_path: Path) -> None:
    text = 'port = 1\ndata = "/d"\nnote = "n"\nnames = ["a", "b"]\non = false\n[inner]\nratio = 1\n'
    loaded = _load(tmp_path, text)
    assert loaded == Example("edge", 1, Path("/d"), "n", ("a", "b"), False, Inner(1.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "unknown key prot"),
        ("[inner]\nrate = 1", "unknown key inner.rate"),
        ('port = "1"', "port must be int"),
        ("port = true", "port must be int"),
        ("port = 70000", "port must be 0 to 65535"),
        ("on = 1", "on must be bool"),
        ("names = [1]", "names must be"),
        ("inner = 1", "inner must be a table"),
        ("port = ", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_and_the_place_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        _load(tmp_path, text)


def test_a_missing_file_is_an_error_and_not_the_defaults(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Cannot read"):
        load_settings(Example, tmp_path / "absent.toml")
