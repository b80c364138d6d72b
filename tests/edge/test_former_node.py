"""Setting a former node aside: everything of it or, after a crash, the rest of it."""

from __future__ import annotations

import stat
from pathlib import Path

from fedaigc_edge.enrolment import is_enrolled
from fedaigc_edge.former_node import set_aside
from fedaigc_edge.identity import Identity
from tests.edge.enrolled import NODE, enrolled


def test_keys_evidence_and_enrolment_move_and_feedback_stays(tmp_path: Path) -> None:
    enrolled(tmp_path)
    Identity.load_or_create(tmp_path / "keys")
    (tmp_path / "evidence.db").write_text("e")
    (tmp_path / "learn.db").write_text("l")
    target = set_aside(tmp_path)
    assert target == tmp_path / "former" / NODE
    assert sorted(path.name for path in target.iterdir()) == ["enrolment.json", "evidence.db", "keys"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["former", "learn.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    assert not is_enrolled(tmp_path)


def test_a_move_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    enrolled(tmp_path)
    (tmp_path / "evidence.db").write_text("e")
    (tmp_path / "former" / NODE / "keys").mkdir(parents=True)
    target = set_aside(tmp_path)
    assert {path.name for path in target.iterdir()} == {"enrolment.json", "evidence.db", "keys"}
