from __future__ import annotations

from fedaigc.ledger_entry import LedgerEntry
from fedaigc.round_plan import RoundPlan
from fedaigc_server.rounds.round_record import MAX_REASON_CHARS, RoundRecord
from tests.server.rounds.conftest import Learning


def _last(learning: Learning) -> LedgerEntry:
    ledger = learning.site.stores.ledger
    return LedgerEntry.from_bytes(ledger.entry(ledger.size - 1))


def test_an_accepted_update_is_recorded_with_its_spend_and_root(learning: Learning) -> None:
    _, plan = learning.begin()
    device = learning.devices[0]
    update = device.update_for(RoundPlan.open(plan, device.release_public))
    record = RoundRecord(learning.site.stores.record, learning.site.clock)
    record.accepted(update, "d" * 64)
    entry = _last(learning)
    assert entry.kind == "update"
    assert entry.body["payload"] == "d" * 64
    assert float(entry.body["epsilon"]) == round(update.epsilon_spent, 6)
    assert entry.body["delta"] == "1e-05"


def test_a_long_reason_still_fits_an_entry(learning: Learning) -> None:
    round_id, _ = learning.begin()
    record = RoundRecord(learning.site.stores.record, learning.site.clock)
    record.refused(round_id, learning.devices[0].node, 0, "d" * 64, "long " * 1000)
    assert len(_last(learning).body["reason"]) == MAX_REASON_CHARS
