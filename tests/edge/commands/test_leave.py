"""`fedaigc-edge leave`: stops, marks, and erases only what was confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fedaigc.errors import NotAuthorised, Unavailable
from fedaigc_edge.cli import device
from fedaigc_edge.commands import last_delivery
from fedaigc_edge.enrolment import is_enrolled
from fedaigc_edge.identity import Identity
from fedaigc_edge.standing import StandingRecord, State
from fedaigc_edge.status import undelivered
from tests.edge.commands.running_daemon import STATUS, running_daemon
from tests.edge.enrolled import NODE, enrolled
from tests.edge.evidence.small_ledger import SmallLedger
from tests.edge.owing import owing, play_server


def _leave(data: Path, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(device, ["leave", "--data", str(data), *arguments], input=stdin)


def test_a_running_device_is_stopped_and_marked_and_the_operators_part_is_named(tmp_path: Path) -> None:
    enrolled(tmp_path)
    delivered = STATUS | {"outbox": 0}
    with running_daemon(tmp_path, {"/status/full": (200, delivered)}) as stand:
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
    owing(tmp_path, SmallLedger(), 2)
    result = _leave(tmp_path, "--erase", "--force", stdin="n\n")
    assert "2 fingerprints were not delivered" in result.stderr
    assert is_enrolled(tmp_path)


def test_what_is_owed_is_delivered_before_the_device_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SmallLedger()
    owing(tmp_path, ledger, 3)
    play_server(monkeypatch, ledger)
    result = _leave(tmp_path)
    assert result.exit_code == 0, result.output
    assert "Delivering 3 fingerprints" in result.stderr
    assert (undelivered(tmp_path), len(ledger.tree.entries)) == (0, 3)
    assert StandingRecord(tmp_path).current.state is State.LEFT


@pytest.mark.parametrize("extra", [(), ("--erase", "--yes")])
def test_a_device_whose_server_is_away_stays_joined_with_all_it_owes_unless_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: tuple[str, ...]
) -> None:
    ledger = SmallLedger()
    owing(tmp_path, ledger, 3)
    play_server(monkeypatch, ledger)
    ledger.failures = [Unavailable("The server is away", "the test says so", "wait")]
    result = _leave(tmp_path, *extra)
    assert result.exit_code == Unavailable.exit_code
    assert "3 fingerprints not delivered yet" in result.stderr
    assert "--force" in result.stderr
    assert (undelivered(tmp_path), is_enrolled(tmp_path)) == (3, True)
    assert StandingRecord(tmp_path).current.state is State.ACTIVE
    assert _leave(tmp_path, "--force").exit_code == 0
    assert (undelivered(tmp_path), StandingRecord(tmp_path).current.state) == (3, State.LEFT)


def test_a_running_device_that_cannot_deliver_is_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_delivery, "WAIT_S", 0.1)
    owing(tmp_path, SmallLedger(), 1)
    stuck = STATUS | {"outbox": 7, "delivery_problem": "The server is away."}
    with running_daemon(tmp_path, {"/status/full": (200, stuck)}) as stand:
        result = _leave(tmp_path)
    assert result.exit_code == Unavailable.exit_code
    assert "7 fingerprints not delivered yet" in result.stderr
    assert ("POST", "/leave", None) not in stand.asked


def test_a_revoked_device_leaves_with_what_no_server_takes_but_is_not_erased_by_the_way(
    tmp_path: Path,
) -> None:
    owing(tmp_path, SmallLedger(), 2)
    StandingRecord(tmp_path).revoked(NotAuthorised("This node was revoked"))
    refused = _leave(tmp_path, "--erase", "--yes")
    assert refused.exit_code == Unavailable.exit_code
    result = _leave(tmp_path)
    assert result.exit_code == 0, result.output
    assert "2 fingerprints undelivered, kept" in result.stderr
    assert undelivered(tmp_path) == 2
    assert _leave(tmp_path, "--erase", "--yes", "--force").exit_code == 0
    assert not is_enrolled(tmp_path)


def test_a_device_with_a_damaged_enrolment_can_leave_and_be_erased(tmp_path: Path) -> None:
    enrolled(tmp_path)
    (tmp_path / "enrolment.json").write_text("{")
    result = _leave(tmp_path)
    assert result.exit_code == 0, result.output
    assert "fedaigc-server node list" in result.stderr
    assert StandingRecord(tmp_path).current.state is State.LEFT
    assert _leave(tmp_path, "--erase", "--yes").exit_code == 0
    assert not is_enrolled(tmp_path)


def test_a_device_that_never_joined_cannot_leave(tmp_path: Path) -> None:
    assert _leave(tmp_path).exit_code == 4
