"""A job's folder is private, carries the task unchanged, and is gone afterwards."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from fedaigc.errors import FedaigcError, TrainingFailed, VerificationFailed
from fedaigc.reward_head import RewardHead
from fedaigc.signing import SigningKey
from fedaigc_edge.learn.training_job import (
    Trained,
    erase_job,
    erase_leftovers,
    new_job,
    read_job,
    read_progress,
    read_trained,
    write_failure,
    write_progress,
    write_trained,
)
from tests.learning_values import BASE_MODEL, a_head, a_plan, an_adapter, some_pairs

KEY = SigningKey.generate()
HEAD = RewardHead(a_head(1), 1, BASE_MODEL)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    plan = a_plan().signed(KEY)
    return new_job(tmp_path, Path("/models/hf"), plan, KEY.public, an_adapter(1), HEAD, some_pairs(3))


def test_the_task_comes_back_unchanged(job: Path) -> None:
    task = read_job(job)
    assert (task.hf, task.plan, task.pairs) == (Path("/models/hf"), a_plan(), tuple(some_pairs(3)))
    assert task.adapter.to_bytes() == an_adapter(1).to_bytes()
    assert np.array_equal(task.head.weights, a_head(1))


def test_nobody_else_can_read_it(job: Path) -> None:
    assert stat.S_IMODE(job.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in job.iterdir()} == {0o600}


def test_a_plan_that_another_key_signed_is_not_trained(job: Path) -> None:
    (job / "plan").write_bytes(a_plan().signed(SigningKey.generate()))
    with pytest.raises(VerificationFailed):
        read_job(job)


def test_results_come_back(job: Path) -> None:
    write_trained(job, Trained(an_adapter(2), a_head(2)), read_job(job))
    trained = read_trained(job, 0)
    assert trained.adapter_delta.to_bytes() == an_adapter(2).to_bytes()
    assert np.array_equal(trained.head_delta, a_head(2))


def test_a_reason_comes_back_as_training_failed(job: Path) -> None:
    write_failure(job, FedaigcError("What", "why", "next"))
    with pytest.raises(TrainingFailed) as caught:
        read_trained(job, 1)
    assert (caught.value.what, caught.value.why, caught.value.do_next) == ("What", "why", "next")


@pytest.mark.parametrize(("code", "word"), [(-9, "killed"), (-15, "asked to stop"), (3, "exit code 3")])
def test_a_trainer_that_died_without_a_word_is_told_by_its_exit(job: Path, code: int, word: str) -> None:
    with pytest.raises(TrainingFailed, match="without a result") as caught:
        read_trained(job, code)
    assert word in caught.value.why


def test_progress_is_told(job: Path) -> None:
    assert read_progress(job) == {"stage": "starting", "done": 0, "total": 0}
    write_progress(job, "adapter", 3, 15)
    assert read_progress(job) == {"stage": "adapter", "done": 3, "total": 15}


def test_jobs_are_erased_and_leftovers_too(job: Path, tmp_path: Path) -> None:
    erase_job(job)
    assert not job.exists()
    plan = a_plan().signed(KEY)
    for _ in range(2):
        new_job(tmp_path, Path("/hf"), plan, KEY.public, an_adapter(1), HEAD, some_pairs(1))
    assert erase_leftovers(tmp_path) == 2
    assert list(tmp_path.iterdir()) == []
    assert erase_leftovers(tmp_path / "missing") == 0
