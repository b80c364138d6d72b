"""learn.db is private, durable, and says so when it is damaged."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fedaigc.errors import StorageError
from fedaigc_edge.learn.learn_database import LearnDatabase

SCHEMA = "CREATE TABLE IF NOT EXISTS t (x INTEGER PRIMARY KEY) STRICT;"


def test_the_file_is_its_owner_s_alone_and_every_commit_is_synced(tmp_path: Path) -> None:
    database = LearnDatabase(tmp_path / "learn.db", SCHEMA)
    with database.transaction() as write:
        write.execute("INSERT INTO t VALUES (1)")
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    settings = {name: database.rows(f"PRAGMA {name}")[0][0] for name in ("synchronous", "journal_mode")}
    assert settings == {"synchronous": 2, "journal_mode": "wal"}
    assert database.rows("PRAGMA secure_delete")[0][0] == 1


def test_a_transaction_is_all_or_nothing_and_nesting_joins_it(tmp_path: Path) -> None:
    database = LearnDatabase(tmp_path / "learn.db", SCHEMA)
    with pytest.raises(KeyError), database.transaction() as write:
        write.execute("INSERT INTO t VALUES (1)")
        with database.transaction() as inner:
            inner.execute("INSERT INTO t VALUES (2)")
        raise KeyError
    assert database.row("SELECT * FROM t") is None


def test_an_unsynced_transaction_commits_and_the_next_one_is_synced_again(tmp_path: Path) -> None:
    database = LearnDatabase(tmp_path / "learn.db", SCHEMA)
    with database.unsynced_transaction() as write:
        assert write.execute("PRAGMA synchronous").fetchone()[0] == 1
        write.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(KeyError), database.unsynced_transaction() as write:
        write.execute("INSERT INTO t VALUES (2)")
        raise KeyError
    assert [row[0] for row in database.rows("SELECT x FROM t")] == [1]
    assert database.rows("PRAGMA synchronous")[0][0] == 2
    with database.transaction(), database.unsynced_transaction() as write:
        assert write.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_two_connections_see_each_other_s_commits(tmp_path: Path) -> None:
    one, two = (LearnDatabase(tmp_path / "learn.db", SCHEMA) for _ in range(2))
    with one.transaction() as write:
        write.execute("INSERT INTO t VALUES (5)")
    row = two.row("SELECT x FROM t")
    assert row is not None and row["x"] == 5


def test_a_damaged_file_is_a_storage_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "learn.db"
    path.write_bytes(b"this is no database, not at all" * 100)
    with pytest.raises(StorageError, match="damaged") as caught:
        LearnDatabase(path, SCHEMA)
    assert "backup" in caught.value.do_next


def test_a_wrong_statement_and_a_closed_database_are_storage_errors(tmp_path: Path) -> None:
    database = LearnDatabase(tmp_path / "learn.db", SCHEMA)
    with pytest.raises(StorageError):
        database.rows("SELECT * FROM missing")
    database.close()
    with pytest.raises(StorageError):
        database.rows("SELECT * FROM t")


def test_a_database_that_was_emptied_is_refused_before_tables_are_made(tmp_path: Path) -> None:
    path = tmp_path / "learn.db"
    LearnDatabase(path, SCHEMA).close()
    path.write_bytes(b"")
    with pytest.raises(StorageError, match="was emptied"):
        LearnDatabase(path, SCHEMA)
    assert path.read_bytes() == b""


def test_a_damaged_page_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "learn.db"
    schema = "CREATE TABLE IF NOT EXISTS t (x INTEGER PRIMARY KEY, y TEXT) STRICT;"
    database = LearnDatabase(path, schema)
    with database.transaction() as write:
        write.executemany("INSERT INTO t VALUES (?, ?)", [(number, "y" * 900) for number in range(200)])
    database.close()
    data = bytearray(path.read_bytes())
    data[-8192:-4096] = b"\xff" * 4096
    path.write_bytes(data)
    with pytest.raises(StorageError, match="damaged"):
        LearnDatabase(path, schema)
