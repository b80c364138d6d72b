"""Works that wait together share a transaction, and none can undo another."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fedaigc.errors import LedgerError, StorageError
from fedaigc_edge.evidence.group_commit import GroupCommit


def insert(number: int) -> Callable[[sqlite3.Connection], int]:
    def work(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO probe VALUES (?)", (number,))
        return number

    return work


def rows(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    found = [row[0] for row in connection.execute("SELECT filler FROM probe ORDER BY filler")]
    connection.close()
    return found


@pytest.fixture
def writer(tmp_path: Path) -> GroupCommit:
    return GroupCommit(tmp_path / "evidence.db")


def hold(writer: GroupCommit) -> threading.Event:
    """Keep the writing thread busy until the event is set, so that what is submitted now forms one group."""
    release, busy = threading.Event(), threading.Event()

    def wait(_: sqlite3.Connection) -> None:
        busy.set()
        release.wait(5)

    writer.submit(wait)
    busy.wait(5)
    return release


def test_a_result_is_on_disk_when_its_future_is_done(writer: GroupCommit, tmp_path: Path) -> None:
    assert writer.submit(insert(4)).result(5) == 4
    assert rows(tmp_path / "evidence.db") == [4]
    writer.close()


def test_waiting_works_share_one_transaction(writer: GroupCommit) -> None:
    begun: list[str] = []
    release = hold(writer)
    writer._connection.set_trace_callback(begun.append)
    futures = [writer.submit(insert(number)) for number in range(20)]
    release.set()
    assert [future.result(5) for future in futures] == list(range(20))
    assert sum(statement.startswith("BEGIN") for statement in begun) == 1
    writer.close()


def test_one_failing_work_leaves_its_neighbours_alone(writer: GroupCommit, tmp_path: Path) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO probe VALUES (100)")
        raise LedgerError("refused")

    def collide(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO probe VALUES (NULL)")

    release = hold(writer)
    before, failing = writer.submit(insert(1)), writer.submit(fail)
    colliding, after = writer.submit(collide), writer.submit(insert(2))
    release.set()
    assert (before.result(5), after.result(5)) == (1, 2)
    with pytest.raises(LedgerError):
        failing.result(5)
    with pytest.raises(StorageError):
        colliding.result(5)
    assert rows(tmp_path / "evidence.db") == [1, 2]
    writer.close()


def test_a_full_disk_fails_the_whole_group_and_heals(writer: GroupCommit, tmp_path: Path) -> None:
    pages = writer.submit(lambda c: c.execute("PRAGMA page_count").fetchone()[0]).result(5)
    writer._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    big = b"x" * 50_000
    row = "INSERT INTO vault VALUES (1, 'r', 'm', ?, x'', x'', '', x'')"
    release = hold(writer)
    small = writer.submit(insert(1))
    full = writer.submit(lambda connection: connection.execute(row, (big,)))
    release.set()
    for future in (small, full):
        with pytest.raises(StorageError, match="disk is full"):
            future.result(5)
    assert rows(tmp_path / "evidence.db") == []
    writer._connection.execute("PRAGMA max_page_count = 1000000")
    assert writer.submit(insert(2)).result(5) == 2
    writer.close()


def test_closing_finishes_what_was_submitted_and_then_refuses(writer: GroupCommit, tmp_path: Path) -> None:
    futures = [writer.submit(insert(number)) for number in range(100)]
    writer.close()
    writer.close()
    assert all(future.done() for future in futures)
    assert len(rows(tmp_path / "evidence.db")) == 100
    with pytest.raises(StorageError, match="closed"):
        writer.submit(insert(1))


def test_a_defect_in_one_work_is_reported_and_the_thread_lives_on(writer: GroupCommit) -> None:
    def defect(_: sqlite3.Connection) -> None:
        raise ZeroDivisionError

    with pytest.raises(StorageError):
        writer.submit(defect).result(5)
    assert writer.submit(insert(1)).result(5) == 1
    writer.close()
