"""One field of a request at a time, checked strictly; a field that this device does not honour is refused.

A field that would change the output and is not honoured is refused, never dropped: a caller who asked for
JSON and got prose without a word has been lied to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NoReturn

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve.request import MAX_STOPS

MAX_STOP_CHARACTERS = 1000
MAX_SEED = 2**63 - 1
MAX_METADATA = 16
"""Entries of `metadata`; keys of 64 and values of 512 characters, as OpenAI has it."""

Neutral = Mapping[str, tuple[Any, ...]]
"""Fields that are not honoured, with the values besides null that leave the answer as it is."""


def refuse(field: str, why: str, do_next: str) -> NoReturn:
    """Raise RequestInvalid about one field; `why` never quotes what the caller sent."""
    raise RequestInvalid(f"The field {field} cannot be used like this", why, do_next, field=field)


def check_fields(body: Mapping[str, Any], honoured: Collection[str], neutral: Neutral) -> None:
    """Refuse unknown fields, and fields that are not honoured unless they are neutral."""
    for field, value in body.items():
        if field in honoured:
            continue
        if field not in neutral:
            # The name is the caller's text: it is repeated only when it can be a field's name.
            shown = field if field.isascii() and field.isidentifier() and len(field) <= 64 else None
            raise RequestInvalid(
                f"Unknown field {shown or 'in the request'}",
                "this device does not know what it should change",
                "leave it out",
                field=shown,
            )
        if value is not None and not any(_same(value, item) for item in neutral[field]):
            refuse(field, "this device cannot do what it asks for, and does not ignore it", "leave it out")


def number(body: Mapping[str, Any], field: str, low: float, high: float, default: float) -> float:
    """A number from `low` to `high`; null or absent is `default`."""
    value = body.get(field)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        refuse(field, f"it must be a number from {low:g} to {high:g}", "correct the value")
    return float(value)


def integer(body: Mapping[str, Any], field: str, low: int, high: int) -> int | None:
    """A whole number from `low` to `high`; null or absent is None."""
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        refuse(field, f"it must be a whole number from {low} to {high}", "correct the value")
    return value


def flag(body: Mapping[str, Any], field: str) -> bool:
    """A boolean; null or absent is False."""
    value = body.get(field)
    if value is not None and not isinstance(value, bool):
        refuse(field, "it must be true or false", "correct the value")
    return bool(value)


def text(body: Mapping[str, Any], field: str, limit: int, check: Callable[[str], bool] = bool) -> str | None:
    """Text of at most `limit` characters; null or absent is None."""
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > limit or not check(value) or not is_unicode(value):
        refuse(field, f"it must be text of 1 to {limit} characters", "correct the value")
    return value


def stops(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The stop sequences: a text, or a list of at most four."""
    value = body.get("stop")
    listed = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or len(listed) > MAX_STOPS:
        refuse("stop", f"it must be a text, or a list of at most {MAX_STOPS}", "name fewer")
    for stop in listed:
        if not isinstance(stop, str) or not 1 <= len(stop) <= MAX_STOP_CHARACTERS or not is_unicode(stop):
            refuse("stop", f"each must be text of 1 to {MAX_STOP_CHARACTERS} characters", "correct it")
    return tuple(listed)


def check_metadata(body: Mapping[str, Any]) -> None:
    """`metadata`: text to text, small. It is accepted and kept nowhere."""
    value = body.get("metadata")
    if value is None:
        return
    good = isinstance(value, dict) and len(value) <= MAX_METADATA
    if not good or not all(
        isinstance(item, str) and len(name) <= 64 and len(item) <= 512 for name, item in value.items()
    ):
        refuse("metadata", f"it must be at most {MAX_METADATA} texts of at most 512 characters", "shorten it")


def record(value: Any, where: str, known: Collection[str], needed: Collection[str] = ()) -> dict[str, Any]:
    """An object with no other than the `known` keys, and all of the `needed` ones."""
    if not isinstance(value, dict) or not set(value) <= set(known) or not set(needed) <= set(value):
        names = ", ".join(sorted(known))
        refuse(where, f"it must be an object with {names}, as far as they are needed", "correct it")
    return value


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


def is_unicode(value: str) -> bool:
    """Whether the text can be written as UTF-8: JSON can smuggle in lone surrogates."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _same(value: Any, neutral: Any) -> bool:
    # In Python, True == 1 and 0 == False; in JSON they are different values.
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
