from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedaigc.errors import IdentityError, LedgerError, RequestInvalid, VerificationFailed
from fedaigc.fingerprint import fingerprint_text
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.signing import b64
from fedaigc_server.officer.searching import check_status, search_ledger, show_entry
from tests.server.officer.desk import Desk

NOW = datetime(2026, 12, 1, 5, 20, tzinfo=UTC)
TEXT = "The committee approved the plan on Tuesday."


def letter(desk: Desk, text: str = TEXT) -> str:
    path = desk.path / "letter.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_recorded_content_is_found_under_the_case_and_the_query_is_in_the_ledger(desk: Desk) -> None:
    desk.record("other", TEXT)
    found = search_ledger(desk.folder, letter(desk), "case 7", 13, NOW)
    assert (found.verdict, found.proven[0].index, found.total) == ("exact", 1, 1)
    query = LedgerEntry.from_bytes(desk.ledger.entry(2))
    assert query.body == {"case": "case 7", "tags": 28, "matches": 1}
    assert search_ledger(desk.folder, letter(desk, "never written"), "", 13, NOW).verdict == "no match"
    assert LedgerEntry.from_bytes(desk.ledger.entry(3)).body["case"] == "unstated"


def test_neither_the_content_nor_an_unkeyed_hash_of_it_ever_leaves_the_process(desk: Desk) -> None:
    desk.record(TEXT)
    search_ledger(desk.folder, letter(desk), "case 7", 13, NOW)
    sent = b"".join(desk.admin.received)
    assert b"case 7" in sent
    fingerprint = fingerprint_text(TEXT)
    for digest in (fingerprint.raw, fingerprint.canonical):
        for form in (digest, digest.hex().encode(), digest.hex()[:32].encode(), b64(digest).encode()):
            assert form not in sent
    for word in TEXT.encode().split():
        assert len(word) < 4 or word not in sent


def test_what_was_recorded_before_the_span_is_found_only_by_looking_further_back(desk: Desk) -> None:
    desk.ledger.append_outputs(desk.device.node, [desk.device.output(TEXT, 1, month="2025-06")])
    assert search_ledger(desk.folder, letter(desk), "c", 13, NOW).verdict == "no match"
    assert search_ledger(desk.folder, letter(desk), "c", 19, NOW).verdict == "exact"
    for months in (0, 241):
        with pytest.raises(RequestInvalid):
            search_ledger(desk.folder, letter(desk), "c", months, NOW)


def test_nothing_is_asked_when_a_key_is_missing(desk: Desk) -> None:
    (desk.path / "tenant.key").unlink()
    with pytest.raises(IdentityError):
        search_ledger(desk.folder, letter(desk), "c", 13, NOW)
    assert desk.admin.received == []


def test_an_entry_is_shown_once_its_receipt_checks(desk: Desk) -> None:
    desk.record(TEXT, "other")
    checked, receipt = show_entry(desk.folder, 1)
    assert (checked.index, checked.entry.kind, receipt) == (1, "output", desk.ledger.receipt(1))
    desk.admin.rewrite = lambda answer: {**answer, "receipt": desk.ledger.receipt(0)}
    with pytest.raises(VerificationFailed, match="another entry"):
        show_entry(desk.folder, 1)
    desk.admin.rewrite = lambda answer: {}
    with pytest.raises(LedgerError):
        show_entry(desk.folder, 1)


def test_the_status_is_the_growth_since_the_last_look(desk: Desk, tmp_path: Path) -> None:
    desk.record(TEXT)
    present, seen = check_status(desk.folder)
    assert (present.size, seen) == (1, None)
    desk.record("more", "and more")
    present, seen = check_status(desk.folder)
    assert seen is not None and (present.size, seen.size) == (3, 1)
    desk.admin.rewrite = lambda answer: {**answer, "proof": []}
    desk.record("yet more")
    with pytest.raises(VerificationFailed, match="cut or rewritten"):
        check_status(desk.folder)
