"""One output as a device delivers it: the entry for the log, and what points to it, for the side tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fedaigc.canonical import Json
from fedaigc.errors import RequestInvalid, VerificationFailed
from fedaigc.fields import MAX_INTEGER
from fedaigc.fingerprint import TAG_BYTES
from fedaigc.ledger_entry import MAX_ENTRY_BYTES, LedgerEntry
from fedaigc.signing import unb64

MAX_ITEMS = 256
MAX_TAGS = 4
MAX_OPENING_BYTES = 16_384

_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
_FIELDS = {"seq", "entry", "tags", "month", "opening"}


@dataclass(frozen=True)
class OutputItem:
    """A sealed answer on its way into the ledger. The server can read none of it but the entry."""

    seq: int
    """The node's own number for it, from 0 and never used twice."""
    entry: bytes
    tags: tuple[bytes, ...]
    """At most 4 lookup tags of 16 bytes, scoped to `month`."""
    month: str
    """`YYYY-MM`."""
    opening: bytes
    """Sealed to the tenant's key."""

    @classmethod
    def from_json(cls, item: Json) -> OutputItem:
        """Read one item of a delivery; raises RequestInvalid naming the field."""
        if not isinstance(item, Mapping) or set(item) != _FIELDS:
            raise _invalid("item", f"it must have exactly the fields {', '.join(sorted(_FIELDS))}")
        seq, tags, month = item["seq"], item["tags"], item["month"]
        if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq <= MAX_INTEGER:
            raise _invalid("seq", "it must be a whole number from 0")
        if not isinstance(tags, list) or len(tags) > MAX_TAGS:
            raise _invalid("tags", f"it must be a list of at most {MAX_TAGS} tags")
        if not isinstance(month, str) or not _MONTH.fullmatch(month):
            raise _invalid("month", "it must have the form YYYY-MM")
        return cls(
            seq=seq,
            entry=_bytes("entry", item["entry"], MAX_ENTRY_BYTES),
            tags=tuple(_bytes("tags", tag, TAG_BYTES, TAG_BYTES) for tag in tags),
            month=month,
            opening=_bytes("opening", item["opening"], MAX_OPENING_BYTES),
        )

    def check(self, node: str) -> None:
        """Raise RequestInvalid unless the entry is an output of `node` with this item's number."""
        try:
            entry = LedgerEntry.from_bytes(self.entry)
        except VerificationFailed as error:
            raise _invalid("entry", str(error)) from error
        if entry.kind != "output":
            raise _invalid("entry", "a device may only deliver outputs")
        if entry.node != node or entry.body["seq"] != self.seq:
            raise _invalid("entry", "its node or its number is not that of the delivery")


def _bytes(field: str, value: Json, most: int, least: int = 1) -> bytes:
    # Four characters carry three bytes, so an oversized field is refused before it is decoded.
    if not isinstance(value, str) or len(value) > 4 * (most // 3 + 1):
        raise _invalid(field, f"it must be base64 of at most {most} bytes")
    try:
        data = unb64(value)
    except VerificationFailed as error:
        raise _invalid(field, error.what) from error
    if not least <= len(data) <= most:
        raise _invalid(field, f"it must have {least} to {most} bytes")
    return data


def _invalid(field: str, why: str) -> RequestInvalid:
    return RequestInvalid(
        f"A delivery's {field} cannot be recorded", why, "update the device's software", field=field
    )
