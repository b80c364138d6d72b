"""Spends are on the disk before the act, are never given back, and no retry is free of charge by accident."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedaigc.errors import NotAuthorised, PrivacyBudgetExceeded, StorageError, TrainingFailed
from fedaigc.identifiers import RoundId
from fedaigc.privacy_account import EPSILON_LIMIT, Mechanism, epsilon
from fedaigc_edge.learn.account_store import MAX_ATTEMPTS, AccountStore
from fedaigc_edge.learn.learn_database import made_before
from tests.house.source_tree import ROOT

ROUND = RoundId("r-00112233aabbccdd")
PLAN = "ab" * 32
COST = (Mechanism(9.0, 1.0, 1), Mechanism(9.0, 1.0, 1))


def _round(number: int) -> RoundId:
    return RoundId(f"r-{number:016x}")


def _store(folder: Path) -> AccountStore:
    return AccountStore(folder / "learn.db", now=lambda: 0.0)


def test_a_new_account_has_spent_nothing(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert (store.epsilon(), store.left(), store.spent()) == (0.0, EPSILON_LIMIT, [])
    assert store.result(ROUND, PLAN) is None


def test_a_reservation_is_on_the_disk_when_it_is_given(tmp_path: Path) -> None:
    reservation = _store(tmp_path).reserve(ROUND, PLAN, COST)
    again = _store(tmp_path)
    assert again.spent() == list(COST)
    assert again.epsilon() == reservation.epsilon == epsilon(COST)
    assert again.left() == EPSILON_LIMIT - reservation.epsilon


def test_a_reservation_that_was_not_started_is_not_paid_twice(tmp_path: Path) -> None:
    first = _store(tmp_path).reserve(ROUND, PLAN, COST)
    assert _store(tmp_path).reserve(ROUND, PLAN, COST) == first
    assert len(_store(tmp_path).spent()) == len(COST)


def test_a_started_round_without_a_result_pays_again_and_only_so_often(tmp_path: Path) -> None:
    store = _store(tmp_path)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        reservation = store.reserve(ROUND, PLAN, COST)
        assert reservation.attempt == attempt
        assert reservation.epsilon == epsilon(COST * attempt)
        store.start(reservation)
    with pytest.raises(TrainingFailed, match="too often"):
        store.reserve(ROUND, PLAN, COST)
    assert len(store.spent()) == len(COST) * MAX_ATTEMPTS


def test_a_finished_round_gives_its_stored_update_for_ever_and_is_never_run_again(tmp_path: Path) -> None:
    store = _store(tmp_path)
    reservation = store.reserve(ROUND, PLAN, COST)
    store.start(reservation)
    store.keep_result(reservation, b"update", bytes(32))
    assert _store(tmp_path).result(ROUND, PLAN) == b"update"
    with pytest.raises(TrainingFailed):
        store.reserve(ROUND, PLAN, COST)
    assert len(store.spent()) == len(COST)


def test_the_same_reservation_is_neither_started_nor_finished_twice(tmp_path: Path) -> None:
    store = _store(tmp_path)
    reservation = store.reserve(ROUND, PLAN, COST)
    with pytest.raises(TrainingFailed, match="used twice"):
        store.keep_result(reservation, b"early", b"")
    store.start(reservation)
    with pytest.raises(TrainingFailed, match="used twice"):
        store.start(reservation)
    newer = store.reserve(ROUND, PLAN, COST)
    store.start(newer)
    with pytest.raises(TrainingFailed, match="used twice"):
        store.keep_result(reservation, b"of the attempt that was given up", b"")
    store.keep_result(newer, b"update", b"")


def test_another_plan_under_a_known_round_is_refused(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.reserve(ROUND, PLAN, COST)
    for ask in (lambda: store.result(ROUND, "cd" * 32), lambda: store.reserve(ROUND, "cd" * 32, COST)):
        with pytest.raises(NotAuthorised, match="plan was changed"):
            ask()
    assert len(store.spent()) == len(COST)


def test_ten_default_rounds_fit_and_the_eleventh_is_refused_without_a_trace(tmp_path: Path) -> None:
    store = _store(tmp_path)
    for number in range(10):
        store.reserve(_round(number), PLAN, COST)
    before = store.epsilon()
    with pytest.raises(PrivacyBudgetExceeded):
        store.reserve(_round(10), PLAN, COST)
    assert store.epsilon() == before <= EPSILON_LIMIT
    assert store.epsilon() == epsilon(store.spent())


@pytest.mark.parametrize("steps", ["", "account.start(reservation);"])
def test_a_process_killed_after_reserving_leaves_the_spend(tmp_path: Path, steps: str) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from fedaigc.privacy_account import Mechanism\n"
        "from fedaigc_edge.learn.account_store import AccountStore\n"
        "account = AccountStore(Path(sys.argv[1]))\n"
        f"reservation = account.reserve({ROUND!r}, {PLAN!r}, [Mechanism(9.0, 1.0, 1)] * 2)\n"
        f"{steps}os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'edge_client'}"}
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "learn.db")], env=paths, check=False)
    assert ended.returncode == -signal.SIGKILL
    store = _store(tmp_path)
    assert store.spent() == list(COST)
    retried = store.reserve(ROUND, PLAN, COST)
    paid_again = bool(steps)
    assert (retried.attempt, len(store.spent())) == ((2, 4) if paid_again else (1, 2))
    assert store.epsilon() == epsilon(store.spent())


def test_a_damaged_account_stops_training_with_a_clear_text(tmp_path: Path) -> None:
    (tmp_path / "learn.db").write_bytes(b"garbage" * 1000)
    with pytest.raises(StorageError, match="damaged"):
        _store(tmp_path)


def _marked(folder: Path) -> tuple[int, float]:
    mark = made_before(folder / "learn.db").reached()
    assert mark is not None
    return mark.height, mark.facts.get("epsilon", 0.0)


def _copy(folder: Path) -> Path:
    """A backup as an owner makes it, of a device that does not run."""
    return Path(shutil.copy(folder / "learn.db", folder / "backup"))


def test_an_old_copy_that_was_put_back_is_refused_with_what_to_do(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.reserve(_round(1), PLAN, COST)
    store.close()
    backup = _copy(tmp_path)
    store = _store(tmp_path)
    store.reserve(_round(2), PLAN, COST)
    store.close()
    shutil.copy(backup, tmp_path / "learn.db")
    with pytest.raises(StorageError, match=r"an old copy was put back.*fedaigc-edge leave --erase"):
        _store(tmp_path)


def test_a_copy_from_before_the_start_of_a_round_would_train_it_free_of_charge_and_is_refused(
    tmp_path: Path,
) -> None:
    store = _store(tmp_path)
    reservation = store.reserve(ROUND, PLAN, COST)
    store.close()
    backup = _copy(tmp_path)
    store = _store(tmp_path)
    store.start(reservation)
    store.close()
    shutil.copy(backup, tmp_path / "learn.db")
    with pytest.raises(StorageError, match="old copy"):
        _store(tmp_path)


@pytest.mark.parametrize("how", ["emptied", "missing", "without its journal", "of another history"])
def test_an_account_that_forgot_is_never_begun_anew(tmp_path: Path, how: str) -> None:
    path = tmp_path / "learn.db"
    store = _store(tmp_path)
    if how == "of another history":
        store.reserve(ROUND, PLAN, COST[:1])
        store.close()
        path.rename(tmp_path / "other")
        (tmp_path / ".made-learn.db").unlink()
        store = _store(tmp_path)
    store.reserve(ROUND, PLAN, COST)
    main = path.read_bytes()
    store.close()
    if how == "emptied":
        path.write_bytes(b"")
    elif how == "missing":
        path.unlink()
    elif how == "without its journal":
        path.write_bytes(main)
    else:
        (tmp_path / "other").rename(path)
    with pytest.raises(StorageError, match="privacy was spent"):
        _store(tmp_path)


@pytest.mark.parametrize("act", ["reserve", "start"])
def test_killed_between_the_commit_and_its_mark_the_device_starts_and_what_was_spent_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    store = _store(tmp_path)
    reservation = store.reserve(ROUND, PLAN, COST) if act == "start" else None
    before = _marked(tmp_path)

    def die(store: AccountStore) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(AccountStore, "_raise_mark", die)
        with pytest.raises(KeyboardInterrupt):
            store.start(reservation) if reservation else store.reserve(ROUND, PLAN, COST)
    store.close()
    assert _marked(tmp_path) == before
    again = _store(tmp_path)
    assert again.epsilon() == epsilon(COST)
    assert _marked(tmp_path) == (1 if act == "reserve" else 2, epsilon(COST))


def test_no_reservation_is_given_out_while_its_mark_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(made: object, height: int, **facts: float) -> None:
        raise StorageError("Cannot write the mark", "the disk is full", "free some space")

    store = _store(tmp_path)
    with monkeypatch.context() as failing:
        failing.setattr("fedaigc.made_before.MadeBefore.note", full)
        for _ in range(2):
            with pytest.raises(StorageError, match="disk is full"):
                store.reserve(ROUND, PLAN, COST)
    assert store.reserve(ROUND, PLAN, COST).attempt == 1
    assert _marked(tmp_path) == (1, epsilon(COST))
