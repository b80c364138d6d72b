"""The names by which devices reach the server, kept from one start to the next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedaigc.canonical import parse_record
from fedaigc.errors import SettingsError, VerificationFailed
from fedaigc.files import read_private, write_private

NAMES_FILE = "public-names.json"


@dataclass(frozen=True)
class PublicNames:
    """`current` goes into new tokens; `former` stays in the TLS certificate, for who joined by it."""

    current: tuple[str, ...] = ()
    former: tuple[str, ...] = ()


def settle_names(keys: Path, given: Sequence[str]) -> PublicNames:
    """The names that hold from this start on: those given, else those of the last start; kept durably.

    Raises SettingsError when the file is damaged and no names are given in its place.
    """
    path = keys / NAMES_FILE
    known = _read(path, bool(given)) if path.exists() else PublicNames()
    current = tuple(dict.fromkeys(name.lower() for name in given)) or known.current
    former = tuple(name for name in dict.fromkeys((*known.former, *known.current)) if name not in current)
    names = PublicNames(current, former)
    if names != known:
        record = {"current": list(names.current), "former": list(names.former)}
        write_private(path, json.dumps(record).encode("ascii"))
    return names


def _read(path: Path, replaceable: bool) -> PublicNames:
    try:
        record = parse_record(read_private(path))
        return PublicNames(*(tuple(str(name) for name in record[key]) for key in ("current", "former")))
    except (VerificationFailed, KeyError, TypeError) as error:
        if replaceable:
            return PublicNames()
        raise SettingsError(
            f"{path} is damaged", type(error).__name__, "name the server again: --public-name NAME"
        ) from error
