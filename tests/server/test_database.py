from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import StorageError
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
