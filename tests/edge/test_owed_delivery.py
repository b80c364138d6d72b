"""What a node owes the ledger reaches it though the node itself no longer runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fedaigc.canonical import Json
from fedaigc.errors import LedgerError, NotAuthorised, Unavailable
from fedaigc_edge.evidence.delivery import BATCH_PATH
from fedaigc_edge.former_node import set_aside
from fedaigc_edge.owed_delivery import deliver_former, deliver_owed
from fedaigc_edge.status import undelivered, undelivered_former
from tests.edge.evidence.small_ledger import SmallLedger
from tests.edge.owing import owing, play_server


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> SmallLedger:
    ledger = SmallLedger()
    play_server(monkeypatch, ledger)
    return ledger


async def _at_once(seconds: float) -> None:
    """No waiting in a test."""


def test_everything_that_is_owed_is_delivered(tmp_path: Path, ledger: SmallLedger) -> None:
    owing(tmp_path, ledger, 300)
    assert asyncio.run(deliver_owed(tmp_path)) == 300
    assert undelivered(tmp_path) == 0
    assert len(ledger.tree.entries) == 300
    assert asyncio.run(deliver_owed(tmp_path)) == 0


def test_what_stops_it_is_raised_and_the_rest_is_kept(tmp_path: Path, ledger: SmallLedger) -> None:
    owing(tmp_path, ledger, 3)
    ledger.failures = [Unavailable("offline")]
    with pytest.raises(Unavailable):
        asyncio.run(deliver_owed(tmp_path))
    assert undelivered(tmp_path) == 3


def test_a_former_node_is_delivered_from_where_it_was_set_aside_after_the_server_came_back(
    tmp_path: Path, ledger: SmallLedger
) -> None:
    owing(tmp_path, ledger, 3)
    set_aside(tmp_path)
    assert (undelivered(tmp_path), undelivered_former(tmp_path)) == (0, 3)
    ledger.failures = [Unavailable("offline"), Unavailable("offline")]
    asyncio.run(deliver_former(tmp_path, sleep=_at_once))
    assert undelivered_former(tmp_path) == 0
    assert len(ledger.tree.entries) == 3


def test_a_former_node_that_the_server_refuses_keeps_its_evidence_and_is_not_asked_for_ever(
    tmp_path: Path, ledger: SmallLedger
) -> None:
    owing(tmp_path, ledger, 3)
    set_aside(tmp_path)
    ledger.failures = [NotAuthorised("revoked")]
    asyncio.run(deliver_former(tmp_path, sleep=_at_once))
    assert (undelivered_former(tmp_path), ledger.batches) == (3, [])


def test_a_number_that_was_used_twice_is_not_delivered_for_ever_either(
    tmp_path: Path, ledger: SmallLedger
) -> None:
    owing(tmp_path, ledger, 3)
    set_aside(tmp_path)
    honest, refused = ledger.post, []

    async def refuse(path: str, body: dict[str, Json]) -> dict[str, Any]:
        if path != BATCH_PATH:
            return await honest(path, body)
        refused.append(path)
        raise LedgerError("Node n used the number 1 twice")

    ledger.post = refuse  # type: ignore[method-assign]
    asyncio.run(deliver_former(tmp_path, sleep=_at_once))
    assert (undelivered_former(tmp_path), len(refused)) == (3, 1)


def test_a_folder_that_was_always_one_node_has_nothing_to_deliver_for_others(tmp_path: Path) -> None:
    asyncio.run(deliver_former(tmp_path))
    assert undelivered_former(tmp_path) == 0
