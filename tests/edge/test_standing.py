"""A device's standing survives restarts, and in doubt it is silent."""

from __future__ import annotations

from pathlib import Path

from fedaigc.errors import NotAuthorised
from fedaigc_edge.standing import STANDING_FILE, Standing, StandingRecord, State

REFUSAL = NotAuthorised("This node was revoked", "lost laptop", "ask the operator for a new token")


def test_a_fresh_device_is_active_and_refuses_nobody(tmp_path: Path) -> None:
    record = StandingRecord(tmp_path)
    assert record.current == Standing()
    assert record.current.refusal() is None


def test_a_revoked_device_stays_revoked_after_a_restart_and_says_what_to_do(tmp_path: Path) -> None:
    StandingRecord(tmp_path, now=lambda: 77).revoked(REFUSAL)
    current = StandingRecord(tmp_path).current
    assert (current.state, current.since) == (State.REVOKED, 77)
    refusal = current.refusal()
    assert refusal is not None
    assert "lost laptop" in str(refusal)
    assert "new token" in refusal.do_next


def test_the_server_can_confirm_it_again(tmp_path: Path) -> None:
    record = StandingRecord(tmp_path)
    record.revoked(REFUSAL)
    record.confirmed()
    assert StandingRecord(tmp_path).current.state is State.ACTIVE


def test_a_confirmation_does_not_bring_back_a_device_whose_owner_left(tmp_path: Path) -> None:
    record = StandingRecord(tmp_path)
    record.left()
    record.confirmed()
    assert StandingRecord(tmp_path).current.state is State.LEFT
    record.returned()
    assert StandingRecord(tmp_path).current.state is State.ACTIVE


def test_leaving_does_not_lift_a_revocation_either(tmp_path: Path) -> None:
    record = StandingRecord(tmp_path)
    record.revoked(REFUSAL)
    record.left()
    record.returned()
    assert record.current.state is State.REVOKED


def test_returning_does_not_lift_a_revocation(tmp_path: Path) -> None:
    record = StandingRecord(tmp_path)
    record.revoked(REFUSAL)
    record.returned()
    assert record.current.state is State.REVOKED


def test_a_damaged_mark_forbids_until_the_server_confirms(tmp_path: Path) -> None:
    path = tmp_path / STANDING_FILE
    path.write_bytes(b'{"state": "act')
    path.chmod(0o600)
    record = StandingRecord(tmp_path)
    assert record.current.refusal() is not None
    record.confirmed()
    assert record.current.refusal() is None


def test_listeners_hear_each_change_once(tmp_path: Path) -> None:
    record, heard = StandingRecord(tmp_path), []
    record.on_change(lambda standing: heard.append(standing.state))
    record.revoked(REFUSAL)
    record.revoked(REFUSAL)
    record.confirmed()
    assert heard == [State.REVOKED, State.ACTIVE]
