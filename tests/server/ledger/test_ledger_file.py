from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from fedaigc.errors import FolderInUse, StorageError
from fedaigc_server.ledger.ledger_file import LedgerFile

WRITE = "INSERT INTO entry (idx, data) VALUES (?, x'00')"


def test_only_its_owner_can_read_the_file_and_its_side_files(path: Path) -> None:
    file = LedgerFile(path)
    with file.writing() as db:
        db.execute(WRITE, (0,))
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}
    assert len(list(path.parent.iterdir())) == 3
    file.close()


def test_every_commit_waits_for_the_disk(path: Path) -> None:
    with LedgerFile(path).reading() as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_transaction_that_raises_never_happened(path: Path) -> None:
    file = LedgerFile(path)
    with pytest.raises(KeyError), file.writing() as db:
        db.execute(WRITE, (0,))
        raise KeyError
    with file.writing() as db:
        assert db.execute("SELECT count(*) FROM entry").fetchone() == (0,)


def test_a_second_writer_waits_and_is_then_told_who_is_in_the_way(path: Path) -> None:
    first, second = LedgerFile(path), LedgerFile(path)
    with second.reading() as db:
        db.execute("PRAGMA busy_timeout = 10")
    with first.writing(), pytest.raises(FolderInUse), second.writing():
        pass


def test_a_file_of_another_program_is_left_alone(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entry (theirs)")
    connection.close()
    with pytest.raises(StorageError, match="not a ledger"):
        LedgerFile(path)


def test_a_file_of_a_newer_release_is_left_alone(path: Path) -> None:
    LedgerFile(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StorageError, match="newer release"):
        LedgerFile(path)


def test_a_missing_folder_or_a_link_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        LedgerFile(tmp_path / "absent" / "ledger.db")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError):
        LedgerFile(tmp_path / "link")
