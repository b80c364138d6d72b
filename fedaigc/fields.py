"""Read the fields of a parsed record with their type and range checked, whoever sent it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fedaigc.canonical import Json
from fedaigc.errors import VerificationFailed

MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader agrees on."""

MAX_NUMBER = 1e300

_HEX = re.compile(r"[0-9a-f]*")


@dataclass(frozen=True)
class Fields:
    """A record and what to call it in an error. Every reader raises VerificationFailed, naming the field."""

    record: Mapping[str, Json]
    kind: str

    def only(self, *names: str) -> None:
        """Refuse a record that lacks one of `names` or holds another: two readers must not differ on it."""
        missing, unknown = set(names) - set(self.record), set(self.record) - set(names)
        if missing or unknown:
            name = min(missing or unknown)
            raise self._wrong(name, "it is missing" if missing else "it is unknown")

    def integer(self, name: str, low: int = 0, high: int = MAX_INTEGER) -> int:
        """A whole number from `low` to `high`, both included."""
        value = self.record.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self._wrong(name, f"it must be a whole number from {low} to {high}")
        return value

    def number(self, name: str, low: float = 0.0, high: float = MAX_NUMBER) -> float:
        """A finite number from `low` to `high`, both included."""
        value = self.record.get(name)
        # Compared before it is converted: a whole number of a thousand digits overflows float().
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self._wrong(name, f"it must be a number from {low} to {high}")
        return float(value)

    def text(self, name: str, limit: int = 256) -> str:
        """A string of at most `limit` characters."""
        value = self.record.get(name)
        if not isinstance(value, str) or len(value) > limit:
            raise self._wrong(name, f"it must be text of at most {limit} characters")
        return value

    def hexadecimal(self, name: str, digits: int = 64, empty: bool = False) -> str:
        """Lower-case hexadecimal of exactly `digits` digits; with `empty`, also nothing at all."""
        value = self.text(name, digits)
        if not _HEX.fullmatch(value) or not (len(value) == digits or (empty and not value)):
            raise self._wrong(name, f"it must be {digits} lower-case hexadecimal digits")
        return value

    def listed(self, name: str, limit: int) -> list[Json]:
        """A list of at most `limit` items."""
        value = self.record.get(name)
        if not isinstance(value, list) or len(value) > limit:
            raise self._wrong(name, f"it must be a list of at most {limit} items")
        return value

    def inner(self, name: str) -> Fields:
        """A record inside this one."""
        return fields_of(self.record.get(name), f"{self.kind}.{name}")

    def _wrong(self, name: str, why: str) -> VerificationFailed:
        return VerificationFailed(
            f"{self.kind}: the field {name} is wrong", why, "both sides must run versions that fit"
        )


def fields_of(value: Json, kind: str) -> Fields:
    """`value` as Fields; raises VerificationFailed unless it is a JSON object."""
    if not isinstance(value, dict):
        raise VerificationFailed(f"{kind} is not a JSON object", "", "both sides must run versions that fit")
    return Fields(value, kind)
