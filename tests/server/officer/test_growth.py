from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fedaigc.errors import StorageError, VerificationFailed
from fedaigc_server.ledger.ledger import Ledger
from fedaigc_server.officer.growth import FILE_NAME, check_growth, last_seen
from tests.server.ledger.outputs import plain_entries
from tests.server.officer.desk import Desk


def looked(desk: Desk, ledger: Ledger | None = None) -> int | None:
    source = ledger or desk.ledger
    seen = last_seen(desk.folder)
    check_growth(desk.folder, seen, source.checkpoint(), source)
    return None if seen is None else seen.size


def test_a_ledger_that_only_grows_is_followed_from_the_first_look(desk: Desk) -> None:
    assert looked(desk) is None
    for size in (0, 3, 6):
        desk.ledger.append(plain_entries(3, size))
        assert looked(desk) == size
    assert looked(desk) == 9
    assert stat.S_IMODE((desk.path / FILE_NAME).stat().st_mode) == 0o600


def test_an_answer_that_another_command_overtook_is_no_alarm_and_forgets_nothing(desk: Desk) -> None:
    looked(desk)
    seen, overtaken = last_seen(desk.folder), desk.ledger.checkpoint()
    desk.ledger.append(plain_entries(3))
    looked(desk)
    assert check_growth(desk.folder, seen, overtaken, desk.ledger).size == 0
    assert looked(desk) == 3


def test_a_ledger_that_was_cut_or_rewritten_is_refused_and_the_old_checkpoint_kept(
    desk: Desk, tmp_path: Path
) -> None:
    desk.ledger.append(plain_entries(5))
    looked(desk)
    kept = (desk.path / FILE_NAME).read_bytes()
    for name, entries in (
        ("cut", plain_entries(4)),
        ("same size", plain_entries(5, 100)),
        ("longer", plain_entries(9, 100)),
    ):
        with Ledger.open(tmp_path / f"{name}.db", desk.ledger._signer) as other:
            other.append(entries)
            with pytest.raises(VerificationFailed, match="cut or rewritten"):
                looked(desk, other)
    assert (desk.path / FILE_NAME).read_bytes() == kept


def test_a_remembered_checkpoint_that_was_damaged_is_not_silently_replaced(desk: Desk) -> None:
    looked(desk)
    (desk.path / FILE_NAME).write_bytes(b"\xff damaged")
    with pytest.raises(VerificationFailed, match=FILE_NAME):
        looked(desk)
    (desk.path / FILE_NAME).unlink()
    (desk.path / FILE_NAME).mkdir()
    with pytest.raises(StorageError):
        looked(desk)
