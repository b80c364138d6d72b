"""The trainer does one task in its own process, bounded and silent, and leaves an update or a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedaigc.errors import TrainingFailed
from fedaigc.reward_head import RewardHead
from fedaigc.signing import SigningKey
from fedaigc_edge.learn import trainer
from fedaigc_edge.learn.trainer import ENVIRONMENT
from fedaigc_edge.learn.training_job import MEMORY_BYTES, new_job, read_progress, read_trained
from tests.edge.learn.tiny_policy import tiny_hf
from tests.house.source_tree import ROOT
from tests.learning_values import BASE_MODEL, HEAD_DIM, a_plan, an_adapter, some_pairs

__all__ = ["tiny_hf"]
KEY = SigningKey.generate()
HEAD = RewardHead.zero(HEAD_DIM, 1, BASE_MODEL)


def _job(folder: Path, hf: Path, memory: int = MEMORY_BYTES) -> Path:
    plan = a_plan().signed(KEY)
    return new_job(folder, hf, plan, KEY.public, an_adapter(1), HEAD, some_pairs(5), memory)


def _run(job: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": f"{ROOT}:{ROOT / 'edge_client'}"}
    command = [sys.executable, "-m", "fedaigc_edge.learn.trainer", str(job)]
    return subprocess.run(command, env=environment, capture_output=True, check=False, timeout=200)


@pytest.mark.slow
def test_a_task_becomes_an_update_without_a_word_on_the_terminal(tmp_path: Path, tiny_hf: Path) -> None:
    job = _job(tmp_path, tiny_hf)
    ended = _run(job)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    trained = read_trained(job, 0)
    assert trained.adapter_delta.norm == pytest.approx(2.0, rel=0.2)
    assert trained.head_delta.shape == (HEAD_DIM,)
    assert trained.head_delta.any()
    assert read_progress(job)["stage"] == "head"


@pytest.mark.slow
def test_a_trainer_that_passes_its_memory_fails_with_that_reason(tmp_path: Path, tiny_hf: Path) -> None:
    job = _job(tmp_path, tiny_hf, memory=80 << 20)
    ended = _run(job)
    assert ended.returncode != 0
    with pytest.raises(TrainingFailed):
        read_trained(job, ended.returncode)
    for secret in (b"quick fox", b"lazy dog"):
        assert secret not in ended.stdout + ended.stderr


@pytest.mark.slow
def test_a_model_that_is_missing_is_the_reason_given(tmp_path: Path) -> None:
    job = _job(tmp_path, tmp_path / "nowhere")
    ended = _run(job)
    assert ended.returncode == 1
    with pytest.raises(TrainingFailed, match="cannot be trained"):
        read_trained(job, 1)


def test_an_unexpected_error_is_told_by_its_type_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("the quick fox asked a secret question")

    monkeypatch.setattr(trainer, "train", broken)
    monkeypatch.setattr(trainer, "_confine", lambda memory: None)
    job = _job(tmp_path, tmp_path)
    assert trainer.main([str(job)]) == 1
    assert b"secret" not in (job / "result.json").read_bytes()
    with pytest.raises(TrainingFailed) as caught:
        read_trained(job, 1)
    assert caught.value.why == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (MemoryError(), "memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "memory"),
        (ImportError("No module named torch"), "cannot train"),
    ],
)
def test_lack_of_memory_and_of_packages_have_their_own_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, word: str
) -> None:
    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(trainer, "train", failing)
    monkeypatch.setattr(trainer, "_confine", lambda memory: None)
    job = _job(tmp_path, tmp_path)
    trainer.main([str(job)])
    with pytest.raises(TrainingFailed, match=word):
        read_trained(job, 1)
