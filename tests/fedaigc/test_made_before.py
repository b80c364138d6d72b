"""A database that forgot is told from a new one, and a crash is told from a copy that was put back."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fedaigc.errors import StorageError
from fedaigc.made_before import MadeBefore


def _made(folder: Path, owner: str = "server") -> MadeBefore:
    return MadeBefore(folder / "x.db", owner, "entries would be lost", "entries", "else ask")


def _database(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "x.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS t (a TEXT)")
    return connection


def test_a_first_start_may_make_it(tmp_path: Path) -> None:
    made = _made(tmp_path)
    made.require_file()
    made.require_content(sqlite3.connect(tmp_path / "x.db"))
    made.require_height(0)
    assert made.reached() is None


@pytest.mark.parametrize("how", ["missing", "emptied"])
def test_a_database_that_went_missing_or_was_emptied_is_not_made_anew(tmp_path: Path, how: str) -> None:
    made = _made(tmp_path)
    made.remember(_database(tmp_path))
    made.require_file()
    (tmp_path / "x.db").unlink() if how == "missing" else (tmp_path / "x.db").write_bytes(b"")
    with pytest.raises(StorageError, match=f"{how}.*entries would be lost.*else ask"):
        made.require_file()


def test_a_database_without_its_tables_is_refused(tmp_path: Path) -> None:
    made = _made(tmp_path)
    made.remember(_database(tmp_path))
    (tmp_path / "x.db").unlink()
    with pytest.raises(StorageError, match="no tables now"):
        made.require_content(sqlite3.connect(tmp_path / "x.db"))


def test_when_the_marker_is_there_the_main_file_holds_the_tables_without_its_journal(tmp_path: Path) -> None:
    _made(tmp_path).remember(_database(tmp_path))
    assert (tmp_path / "x.db-wal").stat().st_size == 0
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "x.db").read_bytes())
    assert sqlite3.connect(copy).execute("SELECT name FROM sqlite_schema").fetchall() == [("t",)]


def test_a_damaged_page_is_found_before_anything_is_written(tmp_path: Path) -> None:
    connection = _database(tmp_path)
    connection.execute("CREATE INDEX by_a ON t (a)")
    connection.executemany("INSERT INTO t VALUES (?)", [(f"{number:0900d}",) for number in range(200)])
    connection.close()
    data = bytearray((tmp_path / "x.db").read_bytes())
    data[40_960:45_056] = bytes(4096)
    (tmp_path / "x.db").write_bytes(data)
    with pytest.raises(StorageError, match=r"is damaged.*SQLite says"):
        _made(tmp_path).require_content(sqlite3.connect(tmp_path / "x.db"))


def test_killed_between_commit_and_mark_it_starts_again_and_the_mark_follows(tmp_path: Path) -> None:
    made = _made(tmp_path)
    made.remember(_database(tmp_path), 4)
    made.require_height(5)
    made.remember(_database(tmp_path), 5)
    mark = made.reached()
    assert mark is not None
    assert mark.height == 5


def test_a_database_below_its_mark_is_an_old_copy(tmp_path: Path) -> None:
    made = _made(tmp_path)
    made.note(5)
    with pytest.raises(StorageError, match=r"holds 4 entries, and there were 5; an old copy was put back"):
        made.require_height(4)


def test_another_owner_begins_with_a_database_of_its_own(tmp_path: Path) -> None:
    _made(tmp_path, "n-1").note(7)
    other = _made(tmp_path, "n-2")
    other.require_file()
    other.require_height(0)
    other.note(0)
    with pytest.raises(StorageError):
        other.require_file()
