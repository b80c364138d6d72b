from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import StorageError
from fedaigc.made_before import MadeBefore
from fedaigc_server.database import Database

SCHEMA = "CREATE TABLE IF NOT EXISTS t (a TEXT PRIMARY KEY) STRICT;"


def test_a_failed_transaction_changes_nothing_even_when_nested(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.db", SCHEMA)
    with pytest.raises(RuntimeError), database.transaction() as outer:
        outer.execute("INSERT INTO t VALUES ('outer')")
        with database.transaction() as inner:
            inner.execute("INSERT INTO t VALUES ('inner')")
        raise RuntimeError
    assert database.rows("SELECT * FROM t") == []


def test_what_was_committed_is_there_after_reopening(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.db", SCHEMA)
    with database.transaction() as write:
        write.execute("INSERT INTO t VALUES ('kept')")
    database.close()
    row = Database(tmp_path / "x.db", SCHEMA).row("SELECT a FROM t")
    assert row is not None
    assert row["a"] == "kept"


def test_the_settings_that_durability_needs_are_on(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.db", SCHEMA)
    values = [database.rows(f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous")]
    assert values == ["wal", 2]


def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database at all, but long enough to be read as one" * 40)
    with pytest.raises(StorageError, match=r"x\.db.*restore it from a backup"):
        Database(tmp_path / "x.db", SCHEMA)


def test_the_file_is_private(tmp_path: Path) -> None:
    Database(tmp_path / "x.db", SCHEMA)
    assert (tmp_path / "x.db").stat().st_mode & 0o777 == 0o600


def test_a_database_that_was_emptied_is_refused_before_tables_are_made(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    made = MadeBefore(path, "server", "nodes would be forgotten", "acts", "else ask")
    database = Database(path, SCHEMA, made=made)
    database.remember(made, 3)
    database.close()
    Database(path, SCHEMA, made=made).close()
    path.write_bytes(b"")
    with pytest.raises(StorageError, match="was emptied"):
        Database(path, SCHEMA, made=made)
    assert path.read_bytes() == b""


def test_a_damaged_page_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    made = MadeBefore(path, "server", "nodes would be forgotten", "acts", "else ask")
    database = Database(path, SCHEMA, made=made)
    with database.transaction() as write:
        write.executemany("INSERT INTO t VALUES (?)", [(f"{number:0900d}",) for number in range(200)])
    database.close()
    data = bytearray(path.read_bytes())
    data[-8192:-4096] = b"\xff" * 4096
    path.write_bytes(data)
    with pytest.raises(StorageError, match="damaged"):
        Database(path, SCHEMA, made=made)
