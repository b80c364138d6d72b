"""What the officer reads: verdicts, entries and the ledger's state, as records for `--json` and as text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fedaigc.canonical import Json
from fedaigc.ledger_check import CheckedEntry
from fedaigc.signed_note import Checkpoint
from fedaigc.signing import b64
from fedaigc_server.officer.verdict import NO_MATCH, UNDECIDED, ProvenMatch, SearchVerdict

if TYPE_CHECKING:
    from rich.console import Console

_TOLD_IN_RECORD = ("request", "finish", "tokens_bucket", "rules", "model", "labels")
MAX_SHOWN_CHARS = 200


def minute_text(minute: int) -> str:
    """A Unix minute as the device's clock had it, in UTC."""
    return datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%d %H:%M UTC")


def checkpoint_record(checkpoint: Checkpoint) -> dict[str, Json]:
    """A verified checkpoint as JSON."""
    return {"origin": checkpoint.origin, "size": checkpoint.size, "root": b64(checkpoint.root)}


def entry_record(checked: CheckedEntry) -> dict[str, Json]:
    """A verified entry as JSON."""
    entry = checked.entry
    return {
        "index": checked.index,
        "kind": entry.kind,
        "node": entry.node,
        "minute": entry.minute,
        "time": minute_text(entry.minute),
        "body": dict(entry.body),
        "checkpoint": checkpoint_record(checked.checkpoint),
    }


def match_record(match: ProvenMatch) -> dict[str, Json]:
    """A proven match as JSON: where it is, and what the device recorded about the generation."""
    entry = match.checked.entry
    return {
        "verdict": match.verdict,
        "index": match.index,
        "node": entry.node,
        "policy": entry.body["policy"],
        "minute": entry.minute,
        "time": minute_text(entry.minute),
        **{name: match.record.get(name) for name in _TOLD_IN_RECORD},
    }


def search_record(found: SearchVerdict, case: str) -> dict[str, Json]:
    """A search's outcome as JSON; nothing in it is content."""
    return {
        "verdict": found.verdict,
        "case": case,
        "matches": [match_record(match) for match in found.proven],
        "unproven": [{"index": m.index, "why": m.why, "erased": m.erased} for m in found.unproven],
        "total": found.total,
        "checkpoint": checkpoint_record(found.checkpoint),
    }


def print_search(console: Console, found: SearchVerdict) -> None:
    """The verdict first, then each match with what proves it."""
    style = "bold yellow" if found.verdict in (NO_MATCH, UNDECIDED) else "bold green"
    console.print(f"Verdict: {found.verdict}", style=style, markup=False)
    if found.verdict == NO_MATCH:
        console.print("  No output recorded in these months is this text. Edited copies are not looked for.")
    if found.verdict == UNDECIDED:
        console.print("  Nothing of what was returned is proven, and there is more. Ask for fewer --months.")
    for match in found.proven:
        record = match_record(match)
        line = f"  entry {match.index}  {record['verdict']}  {record['time']}  node {record['node']}"
        console.print(f"{line}  policy version {record['policy']}", markup=False, highlight=False)
        told = "  ".join(f"{name} {_shown(record[name])}" for name in _TOLD_IN_RECORD)
        console.print(f"      {told}", markup=False, highlight=False, style="dim")
    for unproven in found.unproven:
        style = "dim" if unproven.erased else "bold red"
        console.print(f"  entry {unproven.index}  not proven: {unproven.why}", markup=False, style=style)
    if found.total > len(found.proven) + len(found.unproven):
        console.print(f"  The ledger has {found.total} matches; only the first are shown.", markup=False)
    print_checkpoint(console, found.checkpoint)


def print_entry(console: Console, checked: CheckedEntry) -> None:
    """One verified entry, field by field."""
    entry = checked.entry
    title = f"Entry {checked.index}: {entry.kind}  {minute_text(entry.minute)}  node {entry.node or '-'}"
    console.print(title, markup=False, highlight=False, style="bold")
    for name, value in sorted(entry.body.items()):
        console.print(f"  {name}: {_shown(value)}", markup=False, highlight=False)
    print_checkpoint(console, checked.checkpoint)


def print_checkpoint(console: Console, checkpoint: Checkpoint) -> None:
    """Which ledger was asked, and how large it was."""
    text = f"Ledger {checkpoint.origin}: {checkpoint.size} entries, signature and proofs checked here."
    console.print(text, markup=False, highlight=False, style="dim")


def _shown(value: Json) -> str:
    # A device or an operator chose these characters, and a terminal must not obey them.
    text = value if isinstance(value, str) else json.dumps(value)
    return "".join(char if char.isprintable() else "?" for char in text[:MAX_SHOWN_CHARS])
