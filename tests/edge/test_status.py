"""The status lines say what is wrong, not only what is."""

from __future__ import annotations

from pathlib import Path

from fedaigc_edge.status import resting_status, status_lines, undelivered
from tests.edge.commands.running_daemon import STATUS
from tests.edge.enrolled import enrolled


def test_trouble_is_spelt_out() -> None:
    trouble = STATUS | {
        "reachable": False,
        "problem": "no route",
        "ready": False,
        "not_ready": "loading the model",
        "supernode": {"state": "refused", "message": "ask the operator", "restarts": 3},
        "standing": "revoked",
        "standing_reason": "lost",
        "do_next": "new token",
    }
    text = "\n".join(status_lines(trouble))
    for part in ("no route", "loading the model", "refused: ask the operator", "revoked; lost; new token"):
        assert part in text


def test_a_server_that_was_not_asked_yet_is_not_called_unreachable() -> None:
    (line,) = (line for line in status_lines(STATUS | {"reachable": False}) if line.startswith("server"))
    assert "not asked yet" in line
    assert "reachable" not in line


def test_a_database_that_cannot_be_read_counts_as_zero(tmp_path: Path) -> None:
    assert undelivered(tmp_path) == 0
    (tmp_path / "evidence.db").write_text("not a database")
    assert undelivered(tmp_path) == 0
    enrolled(tmp_path)
    assert resting_status(tmp_path)["outbox"] == 0
