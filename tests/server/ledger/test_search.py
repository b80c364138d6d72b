from __future__ import annotations

from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc.ledger_check import check_receipt
from fedaigc.ledger_entry import UNSTATED_CASE, LedgerEntry
from fedaigc.ledger_tree import verify_growth
from fedaigc.signed_note import open_checkpoint
from fedaigc.signing import b64, unb64
from fedaigc_server.ledger.ledger import Ledger
from fedaigc_server.ledger.search import (
    MAX_TAGS,
    officer_checkpoint,
    officer_consistency,
    officer_entry,
    officer_search,
)
from tests.server.ledger.outputs import MINUTE, NODE, item, output_entry, tag_of


def recorded_query(ledger: Ledger) -> LedgerEntry:
    return LedgerEntry.from_bytes(ledger.entry(ledger.size - 1))


def test_an_answer_holds_what_an_officer_needs_to_check_it_offline(ledger: Ledger) -> None:
    ledger.append_outputs(NODE, [item(seq) for seq in range(3)])
    answer = officer_search(ledger, "case 7", [tag_of(1).hex(), "0" * 32], MINUTE)
    (match,) = answer["matches"]
    assert match["index"] == 1
    assert unb64(match["entry"]) == output_entry(1)
    assert (unb64(match["opening"]), match["month"]) == (b"sealed 1", "2026-12")
    assert check_receipt(match["receipt"], ledger.vkey).checkpoint.size == answer["size"] == 4
    assert open_checkpoint(answer["checkpoint"], ledger.vkey).size == 4


def test_every_query_is_in_the_ledger_before_it_is_answered_found_or_not(ledger: Ledger) -> None:
    ledger.append_outputs(NODE, [item(1)])
    officer_search(ledger, "case 7", [tag_of(1).hex(), tag_of(1).hex(), tag_of(2).hex()], MINUTE)
    query = recorded_query(ledger)
    assert (query.kind, query.node, query.minute) == ("officer_query", None, MINUTE)
    assert query.body == {"case": "case 7", "tags": 2, "matches": 1}
    answer = officer_search(ledger, " ", [tag_of(9).hex()], MINUTE)
    assert answer["matches"] == []
    assert recorded_query(ledger).body == {"case": UNSTATED_CASE, "tags": 1, "matches": 0}


def test_a_query_never_writes_its_tags_into_the_ledger(ledger: Ledger) -> None:
    tag = tag_of(1)
    officer_search(ledger, "", [tag.hex()], MINUTE)
    data = ledger.entry(0)
    assert tag not in data and tag.hex().encode() not in data and b64(tag).encode() not in data


@pytest.mark.parametrize(
    ("case", "tags"),
    [
        ("c", []),
        ("c", ["0" * 32] * (MAX_TAGS + 1)),
        ("c", "0" * 32),
        ("c", ["0" * 31]),
        ("c", ["G" * 32]),
        ("c", [7]),
        ("c" * 101, ["0" * 32]),
        ("two\nlines", ["0" * 32]),
        (7, ["0" * 32]),
        (None, ["0" * 32]),
    ],
)
def test_a_malformed_query_is_refused_and_not_recorded(ledger: Ledger, case: Any, tags: Any) -> None:
    with pytest.raises(RequestInvalid):
        officer_search(ledger, case, tags, MINUTE)
    assert ledger.size == 0


def test_an_entry_comes_with_its_receipt_and_growth_with_its_proof(ledger: Ledger) -> None:
    ledger.append_outputs(NODE, [item(seq) for seq in range(5)])
    first = open_checkpoint(officer_checkpoint(ledger)["checkpoint"], ledger.vkey)
    answer = officer_entry(ledger, 2)
    assert check_receipt(answer["receipt"], ledger.vkey).entry.to_bytes() == unb64(answer["entry"])
    ledger.append_outputs(NODE, [item(seq) for seq in range(5, 9)])
    second = open_checkpoint(officer_checkpoint(ledger)["checkpoint"], ledger.vkey)
    proof = [unb64(step) for step in officer_consistency(ledger, first.size, second.size)["proof"]]
    verify_growth(first.size, second.size, proof, first.root, second.root)
    with pytest.raises(RequestInvalid):
        officer_entry(ledger, 9)
    with pytest.raises(RequestInvalid):
        officer_consistency(ledger, 3, 99)
