"""The evidence database is private, durable, and says clearly what is wrong with it."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fedaigc.errors import StorageError
from fedaigc_edge.evidence.database import SCHEMA_VERSION, open_database
from fedaigc_edge.evidence.outbox import made_before
from tests.edge.evidence.small_ledger import NODE


def test_commits_are_synced_and_the_file_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "evidence.db"
    connection = open_database(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    connection.execute("INSERT INTO probe VALUES (1)")
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    connection.close()


def test_opening_again_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "evidence.db"
    first = open_database(path)
    first.execute("INSERT INTO probe VALUES (5)")
    first.close()
    second = open_database(path)
    assert second.execute("SELECT filler FROM probe").fetchall() == [(5,)]
    second.close()


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "evidence.db"
    path.write_bytes(content)
    with pytest.raises(StorageError) as caught:
        open_database(path)
    assert "evidence.db" in caught.value.what
    assert path.read_bytes() == content


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evidence.db"
    open_database(path).close()
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    other.close()
    with pytest.raises(StorageError, match="newer version"):
        open_database(path)


def test_a_link_in_the_files_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evidence.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        open_database(tmp_path / "evidence.db")


def test_an_undelivered_answers_vault_row_cannot_be_deleted(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "evidence.db")
    connection.execute("INSERT INTO vault VALUES (1, 'r', 'm', x'', x'', x'', '', x'')")
    connection.execute("INSERT INTO outbox VALUES (1, x'')")
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("DELETE FROM vault")
    connection.close()


def test_a_damaged_page_is_refused_at_the_start_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "evidence.db"
    made = made_before(path, NODE)
    connection = open_database(path, made)
    for number in range(200):
        connection.execute("INSERT INTO receipts VALUES (?, 1, ?)", (number, "r" * 900))
    connection.close()
    data = bytearray(path.read_bytes())
    data[-8192:-4096] = b"\xff" * 4096
    path.write_bytes(data)
    with pytest.raises(StorageError, match="is damaged") as caught:
        open_database(path, made)
    assert "newest copy" in caught.value.do_next


WRITER = """
import sys
from pathlib import Path
from fedaigc_edge.evidence.database import open_database
path = Path(sys.argv[1])
writer, reader = open_database(path), open_database(path)
for number in range(2):
    writer.execute("INSERT INTO probe VALUES (?)", (number,))
    reader.execute("SELECT count(*) FROM probe").fetchall()
    print(number, flush=True)
    sys.stdin.readline()
"""


def test_another_program_that_looks_in_loses_nothing_that_is_committed_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "evidence.db"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as device:
        assert device.stdin is not None
        assert device.stdout is not None
        assert device.stdout.readline() == b"0\n"
        with contextlib.closing(sqlite3.connect(path)) as foreign:
            assert foreign.execute("SELECT count(*) FROM probe").fetchone() == (1,)
        device.stdin.write(b"\n")
        device.stdin.flush()
        assert device.stdout.readline() == b"1\n"
        device.kill()
    with contextlib.closing(open_database(path)) as after:
        assert after.execute("SELECT filler FROM probe ORDER BY filler").fetchall() == [(0,), (1,)]
