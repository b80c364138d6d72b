"""Sealed means durable, numbered without gaps, once."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedaigc.errors import StorageError
from fedaigc.fingerprint import fingerprint_text
from fedaigc.identifiers import NodeId
from fedaigc.ledger_entry import LedgerEntry
from fedaigc_edge.evidence.outbox import Outbox, OutboxCounts, made_before
from fedaigc_edge.evidence.receipt_check import check_delivered
from tests.edge.evidence.small_ledger import NODE, TENANT, SmallLedger, output

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 1 << 20


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    box = Outbox(tmp_path / "evidence.db", NODE, TENANT.public, now=lambda: 1_796_000_000.0)
    yield box
    box.close()


def test_numbers_have_no_gap_whoever_seals_at_once(outbox: Outbox) -> None:
    with ThreadPoolExecutor(8) as threads:
        futures = list(threads.map(outbox.seal, [output(number) for number in range(200)]))
    assert sorted(future.result(10).seq for future in futures) == list(range(1, 201))
    assert outbox.counts() == OutboxCounts(200, 200)


def test_a_failed_seal_takes_no_number(outbox: Outbox) -> None:
    outbox.seal(output(1)).result(5)
    with pytest.raises(StorageError):
        outbox.seal(output(1)).result(5)
    assert outbox.seal(output(2)).result(5).seq == 2


def test_pending_holds_what_delivery_needs_in_order(outbox: Outbox) -> None:
    sealed = [outbox.seal(output(number)).result(5) for number in range(5)]
    pending = outbox.pending(3, LIMIT)
    assert [entry.seq for entry in pending] == [1, 2, 3]
    assert pending[0].entry == sealed[0].entry
    assert pending[0].opening == sealed[0].opening
    assert pending[0].raw == fingerprint_text("answer 0").raw
    assert pending[0].month == "2026-11"
    assert LedgerEntry.from_bytes(pending[0].entry).minute == 1_796_000_000 // 60


def test_a_batch_is_limited_in_bytes_but_never_empty(outbox: Outbox) -> None:
    for number in range(5):
        outbox.seal(output(number)).result(5)
    assert len(outbox.pending(5, 1)) == 1
    assert 1 < len(outbox.pending(5, 4000)) < 5


def test_acknowledging_twice_changes_nothing(outbox: Outbox) -> None:
    ledger = SmallLedger()
    outbox.seal(output(1)).result(5)
    (pending,) = outbox.pending(5, LIMIT)
    index = ledger.tree.append(pending.entry)
    receipt = check_delivered(pending, index, ledger.receipt(index), ledger.signer.vkey(), None)
    assert outbox.acknowledge([receipt]).result(5) == 1
    assert outbox.acknowledge([receipt]).result(5) == 0
    assert outbox.pending(5, LIMIT) == []
    assert outbox.counts() == OutboxCounts(1, 0)
    known = outbox.receipt_of(output(1).request)
    assert known is not None
    assert (known.seq, known.text) == (1, ledger.receipt(index))
    assert outbox.seen_checkpoint() == receipt.checkpoint


def test_receipts_are_known_by_request_only(outbox: Outbox) -> None:
    outbox.seal(output(1)).result(5)
    known = outbox.receipt_of(output(1).request)
    assert known is not None
    assert known.text is None
    assert outbox.receipt_of("chatcmpl-unknown") is None
    assert outbox.receipt_of("' OR 1=1 --") is None


def test_the_evidence_of_another_node_is_refused(outbox: Outbox, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="another node"):
        Outbox(tmp_path / "evidence.db", NodeId("n-ffffffffffffffff"), TENANT.public)


def test_the_text_is_not_in_the_database(outbox: Outbox, tmp_path: Path) -> None:
    outbox.seal(output(1, "a very particular sentence")).result(5)
    for file in tmp_path.iterdir():
        assert b"particular" not in file.read_bytes()


def test_a_full_disk_is_said_and_a_probe_tells_when_it_is_over(outbox: Outbox) -> None:
    outbox.seal(output(1)).result(5)
    connection = outbox._writer._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageError, match="disk is full"):
        for number in range(2, 200):
            outbox.seal(output(number)).result(5)
    sealed = outbox.counts().sealed
    connection.execute("PRAGMA max_page_count = 100000")
    outbox.probe().result(5)
    assert outbox.seal(output(999)).result(5).seq == sealed + 1


def test_damage_found_while_running_is_a_storage_error(outbox: Outbox, tmp_path: Path) -> None:
    outbox.seal(output(1)).result(5)
    other = sqlite3.connect(tmp_path / "evidence.db")
    other.execute("DROP TABLE receipts")
    other.commit()
    other.close()
    with pytest.raises(StorageError, match=r"evidence\.db"):
        outbox.receipt_of("x")


SEALS_UNTIL_KILLED = """
import sys
from pathlib import Path
from fedaigc.sealing import SealingPublicKey
from fedaigc_edge.evidence.outbox import Outbox
from tests.edge.evidence.small_ledger import NODE, output
first = int(sys.argv[3])
box = Outbox(Path(sys.argv[1]), NODE, SealingPublicKey.from_text(sys.argv[2]))
for start in range(first, first + 100000, 4):
    for future in [box.seal(output(number)) for number in range(start, start + 4)]:
        sealed = future.result()
        print(sealed.seq, sealed.output.request, flush=True)
"""


def test_kill_9_loses_no_acknowledged_output_and_leaves_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "evidence.db"
    acknowledged: dict[int, str] = {}
    for life in range(3):
        command = [sys.executable, "-c", SEALS_UNTIL_KILLED, str(path), TENANT.public.text()]
        places = [str(ROOT), str(ROOT / "edge_client")]
        child = subprocess.Popen(
            [*command, str(life * 1_000_000)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        )
        assert child.stdout is not None
        for _ in range(20 + 13 * life):
            seq, request = child.stdout.readline().split()
            acknowledged[int(seq)] = request
        child.send_signal(signal.SIGKILL)
        for line in child.stdout.read().splitlines():
            seq, request = line.split()
            acknowledged[int(seq)] = request
        child.wait()
    box = Outbox(path, NODE, TENANT.public)
    sealed = box.counts().sealed
    assert [entry.seq for entry in box.pending(100_000, 1 << 30)] == list(range(1, sealed + 1))
    assert max(acknowledged) <= sealed
    for number, name in acknowledged.items():
        known = box.receipt_of(name)
        assert known is not None
        assert known.seq == number
    box.close()


def _sealed(path: Path, *numbers: int) -> None:
    box = Outbox(path, NODE, TENANT.public)
    for number in numbers:
        box.seal(output(number)).result(5)
    box.close()


def _marked(path: Path) -> int:
    mark = made_before(path, NODE).reached()
    assert mark is not None
    return mark.height


def test_an_old_copy_that_was_put_back_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "evidence.db"
    _sealed(path, 1)
    shutil.copy(path, tmp_path / "backup")
    _sealed(path, 2)
    shutil.copy(tmp_path / "backup", path)
    with pytest.raises(
        StorageError, match=r"holds 1 answers, and there were 2; an old copy.*fedaigc-edge leave"
    ):
        Outbox(path, NODE, TENANT.public)


def test_a_copy_without_its_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evidence.db"
    box = Outbox(path, NODE, TENANT.public)
    box.seal(output(1)).result(5)
    shutil.copy(path, tmp_path / "without-wal")
    box.close()
    shutil.copy(tmp_path / "without-wal", path)
    with pytest.raises(StorageError, match="-wal file"):
        Outbox(path, NODE, TENANT.public)


def test_an_emptied_or_missing_database_is_not_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "evidence.db"
    _sealed(path)
    path.write_bytes(b"")
    with pytest.raises(StorageError, match="was emptied"):
        Outbox(path, NODE, TENANT.public)
    path.unlink()
    with pytest.raises(StorageError, match="is missing"):
        Outbox(path, NODE, TENANT.public)


def test_killed_between_the_commit_and_its_mark_it_starts_again_and_no_number_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "evidence.db"
    _sealed(path, 1)
    with monkeypatch.context() as dying:
        dying.setattr("fedaigc_edge.evidence.outbox.Outbox._mark", lambda box, connection: None)
        _sealed(path, 2)
    assert _marked(path) == 1
    box = Outbox(path, NODE, TENANT.public)
    assert _marked(path) == 2
    assert box.seal(output(3)).result(5).seq == 3
    box.close()


def test_nobody_is_told_of_a_number_that_is_not_marked(
    outbox: Outbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(made: object, height: int) -> None:
        raise StorageError("Cannot write the mark", "the disk is full", "free some space")

    with monkeypatch.context() as failing:
        failing.setattr("fedaigc.made_before.MadeBefore.note_unsynced", full)
        with pytest.raises(StorageError, match="disk is full"):
            outbox.seal(output(1)).result(5)
    assert outbox.seal(output(2)).result(5).seq == 2
    assert _marked(tmp_path / "evidence.db") == 2


def test_a_group_costs_one_mark(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    marks: list[int] = []
    monkeypatch.setattr(
        "fedaigc.made_before.MadeBefore.note_unsynced", lambda made, height: marks.append(height)
    )
    release = threading.Event()
    outbox._writer.submit(lambda connection: release.wait(5))
    futures = [outbox.seal(output(number)) for number in range(40)]
    release.set()
    for future in futures:
        future.result(5)
    outbox.probe().result(5)
    assert len(marks) <= 2
    assert marks[-1] == 40


def test_a_database_of_another_node_gets_no_marker_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "evidence.db"
    _sealed(path, 1)
    other = NodeId("n-ffffffffffffffff")
    with pytest.raises(StorageError, match="another node"):
        Outbox(path, other, TENANT.public)
    assert made_before(path, other).reached() is None
    path.rename(tmp_path / "kept.db")
    Outbox(path, other, TENANT.public).close()
