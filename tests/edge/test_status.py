"""The status lines say what is wrong, not only what is."""

from __future__ import annotations

from pathlib import Path

from fedaigc_edge.former_node import set_aside
from fedaigc_edge.status import resting_status, status_lines, undelivered
from tests.edge.commands.running_daemon import STATUS
from tests.edge.enrolled import enrolled
from tests.edge.evidence.small_ledger import SmallLedger
from tests.edge.owing import owing


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


def test_what_former_nodes_of_the_folder_owe_is_shown_beside_what_this_one_owes(tmp_path: Path) -> None:
    owing(tmp_path, SmallLedger(), 2)
    set_aside(tmp_path)
    enrolled(tmp_path)
    found = resting_status(tmp_path)
    assert (found["outbox"], found["outbox_former"]) == (0, 2)
    assert "0 fingerprints undelivered; 2 undelivered of this folder's former nodes" in "\n".join(
        status_lines(found)
    )
    running = "\n".join(status_lines(STATUS | {"outbox_former": 2}))
    assert "5 receipts kept; 2 undelivered of this folder's former nodes" in running
