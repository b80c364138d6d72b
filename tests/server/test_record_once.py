from __future__ import annotations

import pytest

from fedaigc.errors import StorageError
from fedaigc.high_water import read_mark
from fedaigc.identifiers import new_node_id
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.made_before import MadeBefore
from fedaigc_server.record_once import RecordOnce
from fedaigc_server.stores import open_stores
from tests.server.conftest import NOW, Site


class Crash(Exception):
    """The process dies here."""


class DyingLedger:
    """The real ledger, dying before or after the append."""

    def __init__(self, site: Site, after: bool) -> None:
        self._ledger, self._after = site.stores.ledger, after

    @property
    def size(self) -> int:
        return self._ledger.size

    def append(self, entries: list[bytes]) -> list[int]:
        if self._after:
            self._ledger.append(entries)
        raise Crash

    def entry(self, index: int) -> bytes:
        return self._ledger.entry(index)


def _entry(reason: str = "test") -> LedgerEntry:
    return LedgerEntry("revocation", new_node_id(), NOW // 60, {"reason": reason})


def test_a_key_makes_one_entry(site: Site) -> None:
    first = site.stores.record.record("k", _entry("one"))
    assert site.stores.record.record("k", _entry("two")) == first
    assert site.stores.ledger.size == 1


@pytest.mark.parametrize("after", [False, True], ids=["before the append", "after the append"])
@pytest.mark.parametrize("others", [0, 3])
def test_a_crash_between_the_two_databases_still_gives_exactly_one_entry(
    site: Site, after: bool, others: int
) -> None:
    entry = _entry()
    with pytest.raises(Crash):
        RecordOnce(site.stores.database, DyingLedger(site, after)).record("k", entry)
    site.stores.ledger.append([_entry(str(number)).to_bytes() for number in range(others)])
    assert site.stores.record.finish() == 1
    stored = [site.stores.ledger.entry(index) for index in range(site.stores.ledger.size)]
    assert stored.count(entry.to_bytes()) == 1
    assert site.stores.record.finish() == 0
    assert stored[site.stores.record.record("k", _entry())] == entry.to_bytes()


def test_reopening_finishes_by_itself(site: Site) -> None:
    with pytest.raises(Crash):
        RecordOnce(site.stores.database, DyingLedger(site, after=False)).record("k", _entry())
    again = site.reopened()
    assert again.stores.ledger.size == 1
    site.stores = again.stores


def test_a_closed_database_is_an_error_of_ours(site: Site) -> None:
    site.stores.database.close()
    with pytest.raises(StorageError):
        site.stores.record.record("k", _entry())
    site.stores = site.reopened().stores


def test_killed_between_the_record_and_its_mark_the_server_starts_and_the_mark_follows(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(made: MadeBefore, height: int) -> None:
        raise Crash

    with monkeypatch.context() as dying:
        dying.setattr(MadeBefore, "note", die)
        with pytest.raises(Crash):
            site.stores.record.record("k", _entry("one"))
    site.stores = site.reopened().stores
    assert site.stores.ledger.size == 1
    mark = read_mark(site.data / ".made-server.db")
    assert mark is not None
    assert mark.height == 1


def test_a_ledger_without_an_entry_that_was_recorded_is_an_old_copy(site: Site) -> None:
    # Not signed yet, so the ledger itself cannot know.
    site.stores.close()
    old = (site.data / "ledger.db").read_bytes()
    site.stores = open_stores(site.data, site.identity)
    site.stores.record.record("k", _entry())
    site.stores.close()
    newest = (site.data / "ledger.db").read_bytes()
    (site.data / "ledger.db").write_bytes(old)
    with pytest.raises(StorageError, match="ledger is older"):
        open_stores(site.data, site.identity)
    (site.data / "ledger.db").write_bytes(newest)
    site.stores = open_stores(site.data, site.identity)
