from __future__ import annotations

import pytest

from fedaigc.ledger_check import check_receipt
from fedaigc.ledger_entry import LedgerEntry
from tests.server.admin.conftest import Admin


def test_a_search_is_answered_and_is_itself_in_the_ledger(admin: Admin) -> None:
    found = admin.officer("POST", "/v1/officer/search", {"case": "A-17", "tags": ["00" * 16]}).json()
    assert found["matches"] == []
    entry = LedgerEntry.from_bytes(admin.site.stores.ledger.entry(0))
    assert (entry.kind, entry.body) == ("officer_query", {"case": "A-17", "tags": 1, "matches": 0})


@pytest.mark.parametrize("body", [{}, {"case": "x", "tags": []}, {"case": "x", "tags": ["zz"]}, {"case": 1}])
def test_a_malformed_search_is_refused(admin: Admin, body: dict[str, object]) -> None:
    assert admin.officer("POST", "/v1/officer/search", body).status == 400
    assert admin.site.stores.ledger.size == 0


def test_an_entry_comes_with_a_receipt_that_verifies(admin: Admin) -> None:
    admin.site.enrolled()
    found = admin.officer("GET", "/v1/officer/entries/0").json()
    assert check_receipt(found["receipt"], admin.site.stores.signer.vkey()).entry.kind == "enrolment"
    assert admin.officer("GET", "/v1/officer/entries/99").status == 400


def test_the_checkpoint_and_its_growth_can_be_asked_for(admin: Admin) -> None:
    admin.site.enrolled()
    assert admin.officer("GET", "/v1/officer/checkpoint").json()["size"] == 1
    assert admin.officer("GET", "/v1/officer/consistency?first=0&second=1").json() == {"proof": []}


@pytest.mark.parametrize(
    "query", ["", "?first=1", "?first=-1&second=1", "?first=²&second=1", "?first=2&second=1"]
)
def test_odd_sizes_are_refused(admin: Admin, query: str) -> None:
    target = f"/v1/officer/consistency{query}".replace("²", "%C2%B2")
    assert admin.officer("GET", target).status == 400
