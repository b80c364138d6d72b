from __future__ import annotations

import io
import json
from datetime import UTC, datetime

from rich.console import Console

from fedaigc.ledger_entry import LedgerEntry
from fedaigc_server.officer import report
from fedaigc_server.officer.searching import search_ledger, show_entry
from tests.server.officer.desk import Desk
from tests.server.officer.device import MINUTE

NOW = datetime(2026, 12, 1, tzinfo=UTC)
TEXT = "A sentence that must not be printed."


def printed(write: object) -> str:
    out = io.StringIO()
    assert callable(write)
    write(Console(file=out, soft_wrap=True, force_terminal=False))
    return out.getvalue()


def test_a_search_is_reported_with_its_facts_and_without_the_content(desk: Desk) -> None:
    desk.record(TEXT)
    (desk.path / "c.txt").write_text(TEXT)
    found = search_ledger(desk.folder, str(desk.path / "c.txt"), "case 7", 13, NOW)
    record = report.search_record(found, "case 7")
    (match,) = record["matches"]
    assert (match["verdict"], match["index"], match["policy"], match["minute"]) == ("exact", 0, 3, MINUTE)
    text = printed(lambda console: report.print_search(console, found))
    assert text.startswith("Verdict: exact\n")
    for fact in ("entry 0", "2026-12-01 05:20 UTC", desk.device.node, "policy version 3", "2 entries"):
        assert fact in text
    assert TEXT not in json.dumps(record) + text


def test_no_match_says_what_it_does_not_mean(desk: Desk) -> None:
    (desk.path / "c.txt").write_text(TEXT)
    found = search_ledger(desk.folder, str(desk.path / "c.txt"), "", 13, NOW)
    text = printed(lambda console: report.print_search(console, found))
    assert text.startswith("Verdict: no match\n") and "Edited copies are not looked for" in text


def test_text_from_elsewhere_cannot_steer_the_terminal(desk: Desk) -> None:
    entry = LedgerEntry("revocation", None, MINUTE, {"reason": "\x1b[2J[bold]gone[/bold]" + "x" * 400})
    desk.ledger.append([entry.to_bytes()])
    checked, _ = show_entry(desk.folder, 0)
    text = printed(lambda console: report.print_entry(console, checked))
    assert "\x1b" not in text and "[bold]gone" in text and "x" * 300 not in text
    assert report.entry_record(checked)["body"] == entry.body


def test_minutes_are_shown_in_utc() -> None:
    assert report.minute_text(0) == "1970-01-01 00:00 UTC"
