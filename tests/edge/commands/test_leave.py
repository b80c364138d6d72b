"""`fedaigc-edge leave`: stops, marks, and erases only what was confirmed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from click.testing import CliRunner, Result

from fedaigc_edge.cli import device
from fedaigc_edge.enrolment import is_enrolled
from fedaigc_edge.identity import Identity
from fedaigc_edge.standing import StandingRecord, State
from tests.edge.commands.running_daemon import running_daemon
from tests.edge.enrolled import NODE, enrolled


def _leave(data: Path, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(device, ["leave", "--data", str(data), *arguments], input=stdin)


def test_a_running_device_is_stopped_and_marked_and_the_operators_part_is_named(tmp_path: Path) -> None:
    enrolled(tmp_path)
    with running_daemon(tmp_path) as stand:
        result = _leave(tmp_path)
    assert result.exit_code == 0
    assert ("POST", "/leave", None) in stand.asked
    assert StandingRecord(tmp_path).current.state is State.LEFT
    assert f"fedaigc-server node revoke {NODE}" in result.stderr
    assert is_enrolled(tmp_path)


def test_erase_deletes_the_devices_files_and_nothing_else(tmp_path: Path) -> None:
    enrolled(tmp_path)
    Identity.load_or_create(tmp_path / "keys")
    for name in ("evidence.db", "evidence.db-wal", "learn.db", "mine.txt"):
        (tmp_path / name).write_text("x")
    for name in ("policy", "flower", "logs"):
        (tmp_path / name).mkdir()
    result = _leave(tmp_path, "--erase", "--yes")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "mine.txt"]


def test_erase_asks_first_and_a_no_changes_nothing(tmp_path: Path) -> None:
    enrolled(tmp_path)
    result = _leave(tmp_path, "--erase", stdin="n\n")
    assert result.exit_code == 1
    assert is_enrolled(tmp_path)
    assert StandingRecord(tmp_path).current.state is State.ACTIVE


def test_undelivered_fingerprints_are_counted_before_the_question(tmp_path: Path) -> None:
    enrolled(tmp_path)
    with sqlite3.connect(tmp_path / "evidence.db") as database:
        database.execute("CREATE TABLE outbox (seq INTEGER PRIMARY KEY)")
        database.executemany("INSERT INTO outbox VALUES (?)", [(1,), (2,)])
    database.close()
    result = _leave(tmp_path, "--erase", stdin="n\n")
    assert "2 fingerprints were not delivered" in result.stderr


def test_a_device_that_never_joined_cannot_leave(tmp_path: Path) -> None:
    assert _leave(tmp_path).exit_code == 4
