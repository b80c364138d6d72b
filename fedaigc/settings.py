"""Load a TOML file into frozen settings; an unknown key or a wrong type is an error with its place.

A settings class is a frozen dataclass whose fields all have defaults; a field may be another such class (a
TOML table). Values given on the command line are laid over the file with `dataclasses.replace`.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from fedaigc.errors import SettingsError

S = TypeVar("S")

MAX_SETTINGS_BYTES = 1 << 20


def load_settings(kind: type[S], path: Path | None) -> S:
    """Read `path` into `kind`; without a path, the defaults.

    Raises SettingsError naming the file and the key.
    """
    if path is None:
        return kind()
    try:
        if path.stat().st_size > MAX_SETTINGS_BYTES:
            raise SettingsError(f"{path} is too large for a settings file", "", "give the right file")
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"Cannot read {path}", error.strerror or "", "check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML", str(error), "mend the line that it names") from error
    return settings_from(kind, table, str(path))


def settings_from(kind: type[S], table: Mapping[str, Any], source: str, prefix: str = "") -> S:
    """Build `kind` from a parsed table; raises SettingsError on unknown keys and wrong types."""
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, kind))}
    unknown = sorted(set(table) - set(fields))
    if unknown:
        raise SettingsError(
            f"{source}: unknown key {prefix}{unknown[0]}",
            f"known keys here are {', '.join(sorted(fields))}",
            "remove it or correct its spelling",
        )
    hints = typing.get_type_hints(kind)
    values = {name: _value(hints[name], table[name], source, prefix + name) for name in table}
    try:
        return kind(**values)
    except ValueError as error:
        raise SettingsError(
            f"{source}: {prefix or 'a value'} is out of range", str(error), "correct it"
        ) from error


def _value(hint: Any, value: Any, source: str, key: str) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise SettingsError(f"{source}: {key} must be a table", "", f"write [{key}]")
        return settings_from(typing.cast(type[Any], hint), value, source, key + ".")
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        accepted, converted = _as_type(option, value)
        if accepted:
            return converted
    wanted = " or ".join(getattr(option, "__name__", str(option)) for option in options)
    raise SettingsError(
        f"{source}: {key} must be {wanted}", f"it is {type(value).__name__}", "correct the value"
    )


def _as_type(option: Any, value: Any) -> tuple[bool, Any]:
    if option is Path:
        return isinstance(value, str), Path(value).expanduser() if isinstance(value, str) else None
    if option is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number, float(value) if number else None
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    if typing.get_origin(option) is tuple:
        inner = typing.get_args(option)[0]
        good = isinstance(value, list) and all(_as_type(inner, item)[0] for item in value)
        return good, tuple(value) if good else None
    return isinstance(option, type) and isinstance(value, option), value
