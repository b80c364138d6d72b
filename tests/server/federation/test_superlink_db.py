"""A damaged database of Flower is noticed and set aside whole; one that is sound is never touched."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedaigc_server.clock import Clock
from fedaigc_server.federation.superlink_db import (
    SuperLinkDatabase,
    damage,
    died_of_its_database,
    keep_private,
    set_aside,
)

NOW = datetime(2026, 12, 1, 8, 30, tzinfo=UTC)


def _database(folder: Path) -> Path:
    path = folder / "superlink.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE node (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO node (name) VALUES (?)", [("x" * 500,) for _ in range(200)])
        connection.commit()
    return path


def test_a_sound_missing_or_empty_database_is_not_damaged(tmp_path: Path) -> None:
    assert damage(tmp_path / "superlink.db") == ""
    assert not (tmp_path / "superlink.db").exists()
    (tmp_path / "superlink.db").touch()
    assert damage(tmp_path / "superlink.db") == ""
    assert damage(_database(tmp_path)) == ""


@pytest.mark.parametrize("at", [0, 3 * 4096])
def test_overwritten_pages_are_damage_wherever_they_are(tmp_path: Path, at: int) -> None:
    path = _database(tmp_path)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(os.urandom(8192))
    assert damage(path) != ""


def test_a_database_that_is_cut_short_is_damage(tmp_path: Path) -> None:
    path = _database(tmp_path)
    os.truncate(path, 5000)
    assert damage(path) != ""


def test_a_database_in_use_is_not_damaged(tmp_path: Path) -> None:
    path = _database(tmp_path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert damage(path) == ""


def test_it_is_set_aside_with_its_journals_under_its_time_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"superlink.db{suffix}").write_text("junk" + suffix)
    with caplog.at_level(logging.WARNING):
        aside = set_aside(tmp_path / "superlink.db", "file is not a database", NOW)
    assert aside.name == "superlink.db.damaged-20261201T083000Z"
    assert aside.read_text() == "junk"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        aside.name,
        f"{aside.name}-shm",
        f"{aside.name}-wal",
    ]
    assert "registered again" in caplog.text
    assert aside.name in caplog.text


@pytest.mark.parametrize(
    ("output", "blamed"),
    [
        (b"sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) no such table: node", True),
        (b"alembic.util.exc.CommandError: Can't locate revision", True),
        (b"sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) database is locked", False),
        (b"sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) database or disk is full", False),
        (b"OSError: address already in use", False),
    ],
)
def test_only_what_a_fresh_database_would_mend_is_blamed_on_it(output: bytes, blamed: bool) -> None:
    assert died_of_its_database(output) is blamed


def test_what_others_could_read_is_taken_from_them(tmp_path: Path) -> None:
    path = _database(tmp_path)
    path.chmod(0o644)
    keep_private(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_database_that_others_broke_between_two_starts_is_mended_before_the_next(tmp_path: Path) -> None:
    path = _database(tmp_path)
    database = SuperLinkDatabase(path, tmp_path / "log", Clock(NOW.timestamp))
    assert not database.mend_before_start()
    path.write_bytes(b"junk" * 4096)
    assert database.mend_before_start()
    assert not path.exists()


def test_deaths_over_a_sound_file_are_mended_only_when_they_repeat_without_another_between(
    tmp_path: Path,
) -> None:
    path, output = _database(tmp_path), tmp_path / "log"
    output.write_bytes(b"sqlalchemy.exc.OperationalError of an earlier server")
    database = SuperLinkDatabase(path, output, Clock(NOW.timestamp))
    found = []
    for line in (b"sqlalchemy.exc.X", b"sqlalchemy.exc.X", b"killed", *[b"alembic.Y"] * 3):
        with output.open("ab") as file:
            file.write(b"\n" + line)
        found.append(database.mend_after_death())
    assert found == [False] * 5 + [True]
    assert not path.exists()
