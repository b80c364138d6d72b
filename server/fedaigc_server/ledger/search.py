"""What the admin port answers an officer: matches with their proofs, never without recording the question."""

from __future__ import annotations

import re

from fedaigc.canonical import Json
from fedaigc.errors import RequestInvalid
from fedaigc.ledger_entry import UNSTATED_CASE, LedgerEntry
from fedaigc.signed_note import open_checkpoint
from fedaigc.signing import b64
from fedaigc_server.ledger.ledger import Ledger

MAX_TAGS = 512
"""Two tags for each of 256 months."""

MAX_CASE_CHARS = 100

_TAG = re.compile(r"[0-9a-f]{32}")


def officer_search(ledger: Ledger, case: Json, tags: Json, minute: int) -> dict[str, Json]:
    """Outputs that carry any of `tags` (lower-case hexadecimal, 16 bytes each), for the case `case`.

    The query is appended to the ledger, as an `officer_query` at Unix minute `minute`, before anything is
    answered. The answer: `matches` (at most 100: index, entry, receipt, opening or null, month), `total`, and
    `size` and `checkpoint` of a ledger that holds the query. Raises RequestInvalid.
    """
    wanted, name = _tags(tags), _case(case)
    matches, total = ledger.search(wanted)
    body = {"case": name, "tags": len(wanted), "matches": total}
    ledger.append([LedgerEntry("officer_query", None, minute, body).to_bytes()])
    receipts = ledger.receipts(match.index for match in matches)
    answers = [
        {
            "index": match.index,
            "entry": b64(ledger.entry(match.index)),
            "receipt": receipt,
            "opening": None if match.opening is None else b64(match.opening),
            "month": match.month,
        }
        for match, receipt in zip(matches, receipts, strict=True)
    ]
    return {"matches": answers, "total": total, **officer_checkpoint(ledger)}


def officer_entry(ledger: Ledger, index: int) -> dict[str, Json]:
    """One entry and its receipt: `index`, `entry`, `receipt`. Raises RequestInvalid when there is none."""
    return {"index": index, "entry": b64(ledger.entry(index)), "receipt": ledger.receipt(index)}


def officer_checkpoint(ledger: Ledger) -> dict[str, Json]:
    """The present signed checkpoint: `size` and `checkpoint`."""
    note = ledger.checkpoint()
    return {"size": open_checkpoint(note, ledger.vkey).size, "checkpoint": note}


def officer_consistency(ledger: Ledger, first: int, second: int) -> dict[str, Json]:
    """Proof that the ledger only grew from `first` to `second` entries: `proof`. Raises RequestInvalid."""
    return {"proof": [b64(step) for step in ledger.consistency(first, second)]}


def _tags(tags: Json) -> list[bytes]:
    if not isinstance(tags, list) or not 0 < len(tags) <= MAX_TAGS:
        raise RequestInvalid(
            "No usable tags", f"give 1 to {MAX_TAGS} tags", "use fedaigc-ledger search", "tags"
        )
    if not all(isinstance(tag, str) and _TAG.fullmatch(tag) for tag in tags):
        raise RequestInvalid("A tag is malformed", "it has 32 digits", "use fedaigc-ledger search", "tags")
    return [bytes.fromhex(tag) for tag in dict.fromkeys(tags)]


def _case(case: Json) -> str:
    if not isinstance(case, str) or len(case) > MAX_CASE_CHARS or not (case.isprintable() or not case):
        raise RequestInvalid(
            "The case cannot be recorded",
            f"it must be one line of at most {MAX_CASE_CHARS} characters",
            "give the case's number",
            "case",
        )
    return case.strip() or UNSTATED_CASE
