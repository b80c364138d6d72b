from __future__ import annotations

import json
import time
from typing import Any

import pytest

from fedaigc.ledger_check import check_receipt
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.signing import b64
from tests.server.asgi_call import Answer, call
from tests.server.public.conftest import Public

PATH = "/v1/ledger/batches"


@pytest.fixture(autouse=True)
def _present(public: Public) -> None:
    public.site.seconds = time.time()


def _item(public: Public, seq: int, **changes: Any) -> dict[str, Any]:
    body = {
        "seq": seq,
        "commitment": b64(bytes([seq]) * 32),
        "policy": 0,
        "rules": "0" * 16,
        "model": "1" * 16,
        "labels": 0,
        "media": "text",
    }
    entry = LedgerEntry("output", changes.pop("node", public.device.node), 29_000_000, body).to_bytes()
    return {
        "seq": seq,
        "entry": b64(entry),
        "tags": [b64(bytes(16))],
        "month": "2026-07",
        "opening": b64(b"sealed"),
        **changes,
    }


def _send(public: Public, *items: dict[str, Any]) -> Answer:
    body = json.dumps({"items": items}).encode()
    return call(public.app, "POST", PATH, body, public.device.headers("POST", PATH, body))


def test_each_output_gets_a_receipt_that_verifies_offline(public: Public) -> None:
    answer = _send(public, _item(public, 0), _item(public, 1))
    assert answer.status == 200
    vkey = public.site.stores.signer.vkey()
    for receipt in answer.json()["receipts"]:
        checked = check_receipt(receipt["receipt"], vkey)
        assert checked.entry.body["seq"] == receipt["seq"]
        assert checked.index == receipt["index"]


def test_a_batch_that_is_sent_twice_is_recorded_once(public: Public) -> None:
    first = _send(public, _item(public, 0)).json()["receipts"][0]["index"]
    size = public.site.stores.ledger.size
    assert _send(public, _item(public, 0)).json()["receipts"][0]["index"] == first
    assert public.site.stores.ledger.size == size


def test_a_number_with_another_entry_is_a_conflict(public: Public) -> None:
    _send(public, _item(public, 0))
    other = _item(public, 1)
    body = LedgerEntry.from_bytes(public.site.stores.ledger.entry(1)).body
    changed = LedgerEntry("output", public.device.node, 29_000_001, body).to_bytes()
    answer = _send(public, {**other, "seq": 0, "entry": b64(changed)})
    assert answer.status == 409
    assert answer.json()["error"]["code"] == "ledger"


def test_a_node_can_write_for_itself_only(public: Public) -> None:
    other = public.site.enrolled("other")
    assert _send(public, _item(public, 0, node=other.node)).status == 400


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 5},
        {"seq": -1},
        {"month": "2026"},
        {"tags": ["AA=="]},
        {"opening": ""},
        {"entry": "AA=="},
        {"x": 1},
    ],
)
def test_a_malformed_item_is_refused_whole(public: Public, change: dict[str, Any]) -> None:
    size = public.site.stores.ledger.size
    assert _send(public, _item(public, 0), {**_item(public, 1), **change}).status == 400
    assert public.site.stores.ledger.size == size


def test_too_many_items_are_refused(public: Public) -> None:
    assert _send(public, *[{} for _ in range(257)]).status == 400
