"""A round is done once: epsilon first, then feedback, then an update that the server admits."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedaigc.adapter import Adapter
from fedaigc.errors import ModelError, NotAuthorised, PrivacyBudgetExceeded, TrainingFailed
from fedaigc.identifiers import PolicyVersion, RoundId, new_round_id
from fedaigc.privacy_account import epsilon
from fedaigc.round_plan import RoundPlan
from fedaigc.signing import SigningKey
from fedaigc.update import NodeUpdate
from fedaigc_edge.learn.account_store import AccountStore
from fedaigc_edge.learn.feedback_store import FeedbackStore
from fedaigc_edge.learn.local_round import JOBS_FOLDER, LocalRounds, PolicyInUse
from fedaigc_edge.learn.training_job import Trained, read_job, write_trained
from tests.edge.learn.tiny_policy import tiny_folder
from tests.house.source_tree import ROOT
from tests.learning_values import NODE, a_head, a_plan, an_adapter

RELEASE, SIGNING = SigningKey.generate(), SigningKey.generate()
NOW = 2_000_000_000
BASE_POLICY = PolicyInUse(PolicyVersion(0), None, None)
Harm = Callable[["Device"], None]


class FakeTrainer(LocalRounds):
    """The real round with a trainer that is a function; what it saw is kept."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.trainings = 0
        self.before_training: Callable[[], None] = lambda: None
        self.seen: list[Any] = []

    async def _run_trainer(self, job: Path, seconds: float) -> int:
        self.trainings += 1
        task = read_job(job)
        self.seen.append((task, seconds, self.progress()))
        self.before_training()
        write_trained(job, Trained(an_adapter(self.trainings), a_head(self.trainings)), task)
        return 0


class Device:
    """One device's stores and rounds in a folder; `restart` opens them again."""

    def __init__(self, folder: Path, pairs: int = 5) -> None:
        self.folder = folder
        self.model = tiny_folder(folder / "model")
        self.policy = BASE_POLICY
        self.restart()
        for number in range(pairs):
            self.feedback.add({"prompt": f"q{number}", "chosen": f"good {number}", "rejected": "bad"})

    def restart(self, kind: type[LocalRounds] = FakeTrainer) -> None:
        self.feedback = FeedbackStore(self.folder / "learn.db")
        self.account = AccountStore(self.folder / "learn.db")
        self.rounds: Any = kind(
            *(self.folder, self.model, NODE, SIGNING, RELEASE.public, self.feedback, self.account),
            lambda: self.policy,
            lambda: NOW,
        )

    def run(self, plan: RoundPlan, key: SigningKey = RELEASE) -> bytes:
        update: bytes = asyncio.run(self.rounds.run(plan.signed(key)))
        return update


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


def test_a_plan_becomes_a_signed_update_that_names_its_cost(device: Device) -> None:
    update = NodeUpdate.open(device.run(a_plan()), SIGNING.public)
    assert (update.round, update.node, update.parent) == (a_plan().round, NODE, 0)
    assert update.mechanisms == a_plan().mechanisms
    assert update.epsilon_spent == device.account.epsilon() == epsilon(a_plan().mechanisms)
    assert update.moved == update.adapter_delta.norm > 0
    assert update.fingerprint_root != bytes(32)
    assert device.feedback.count(unused=True) == 0


def test_the_same_plan_again_gives_the_same_bytes_and_costs_nothing_even_after_a_restart(
    device: Device,
) -> None:
    first = device.run(a_plan())
    assert device.run(a_plan()) == first
    assert device.rounds.trainings == 1
    device.restart()
    device.policy = PolicyInUse(PolicyVersion(1), an_adapter(9), None)
    assert device.run(a_plan()) == first
    assert device.rounds.trainings == 0
    assert device.account.epsilon() == epsilon(a_plan().mechanisms)


def test_two_requests_at_once_train_once(device: Device) -> None:
    async def both() -> list[bytes]:
        plan = a_plan().signed(RELEASE)
        return list(await asyncio.gather(device.rounds.run(plan), device.rounds.run(plan)))

    one, two = asyncio.run(both())
    assert one == two
    assert device.rounds.trainings == 1


def test_epsilon_is_reserved_on_the_disk_before_any_feedback_is_read(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[float] = []
    read = device.feedback.pairs

    def watched(unused: bool = False) -> Any:
        spent.append(AccountStore(device.folder / "learn.db").epsilon())
        return read(unused)

    monkeypatch.setattr(device.feedback, "pairs", watched)
    device.run(a_plan())
    assert spent == [epsilon(a_plan().mechanisms)]


def test_without_room_no_feedback_is_read(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(unused: bool = False) -> Any:
        raise AssertionError("feedback was read")

    monkeypatch.setattr(device.feedback, "pairs", forbidden)
    with pytest.raises(PrivacyBudgetExceeded):
        device.run(a_plan(noise=1.0))
    assert device.account.epsilon() == 0.0


@pytest.mark.parametrize(
    ("plan", "word"),
    [
        (a_plan(base_model="6b" * 32), "another base model"),
        (a_plan(shape=replace(a_plan().shape, rank=2)), "another shape"),
        (a_plan(head_layer=2), "reward head"),
        (a_plan(parent=3), "policy 3"),
        (a_plan(deadline=NOW), "deadline"),
        (a_plan(min_pairs=6), "fewer than 6"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_and_costs_nothing(
    device: Device, plan: RoundPlan, word: str
) -> None:
    with pytest.raises(TrainingFailed, match="takes no part") as caught:
        device.run(plan)
    assert word in caught.value.why
    assert device.account.epsilon() == 0.0


def test_a_plan_of_another_key_or_a_changed_one_is_not_obeyed(device: Device) -> None:
    with pytest.raises(NotAuthorised, match="not from the server"):
        device.run(a_plan(), SigningKey.generate())
    device.run(a_plan())
    with pytest.raises(NotAuthorised, match="plan was changed"):
        device.run(a_plan(expected_pairs=1))


def test_changed_weights_on_the_disk_are_not_trained(device: Device) -> None:
    (device.model.hf / "config.json").write_text("{}")
    with pytest.raises(ModelError):
        device.run(a_plan())
    assert device.account.epsilon() == 0.0


def test_training_starts_from_the_policy_in_force_with_every_pair_of_the_store(device: Device) -> None:
    device.policy = PolicyInUse(PolicyVersion(4), an_adapter(7), None)
    device.run(a_plan(parent=4))
    device.policy = PolicyInUse(PolicyVersion(5), an_adapter(8), None)
    device.run(a_plan(new_round_id(), parent=5))
    first, second = (task for task, _, _ in device.rounds.seen)
    assert first.adapter.to_bytes() == an_adapter(7).to_bytes()
    assert [len(task.pairs) for task in (first, second)] == [5, 5]
    assert device.account.epsilon() == epsilon(a_plan().mechanisms * 2)


def test_the_task_with_its_pairs_is_erased_whatever_happens(device: Device) -> None:
    def broken() -> None:
        raise TrainingFailed("no")

    device.rounds.before_training = broken
    with pytest.raises(TrainingFailed):
        device.run(a_plan())
    assert list((device.folder / JOBS_FOLDER).iterdir()) == []
    assert device.rounds.progress() is None
    left = device.folder / JOBS_FOLDER / "job-0123"
    left.mkdir()
    device.restart()
    assert not left.exists()


def test_a_round_that_failed_after_reading_pays_again_twice_at_most(device: Device) -> None:
    def broken() -> None:
        raise TrainingFailed("no")

    for attempt in (1, 2):
        device.restart()
        device.rounds.before_training = broken
        with pytest.raises(TrainingFailed):
            device.run(a_plan())
        assert device.account.epsilon() == epsilon(a_plan().mechanisms * attempt)
    device.restart()
    with pytest.raises(TrainingFailed, match="too often"):
        device.run(a_plan())
    assert device.rounds.trainings == 0


def test_a_retry_after_a_crash_gives_an_update_with_both_payments(device: Device) -> None:
    def broken() -> None:
        raise TrainingFailed("no")

    device.rounds.before_training = broken
    with pytest.raises(TrainingFailed):
        device.run(a_plan())
    device.restart()
    update = NodeUpdate.open(device.run(a_plan()), SIGNING.public)
    assert update.epsilon_spent == epsilon(a_plan().mechanisms * 2)


def test_the_status_tells_the_server_what_it_needs_and_pairs_in_powers_of_two(device: Device) -> None:
    status = device.rounds.status()
    assert (status["node"], status["base_model"], status["policy"]) == (NODE, a_plan().base_model, 0)
    assert status["shape"] == a_plan().shape.to_json()
    assert (status["pairs_new"], status["epsilon_spent"], status["epsilon_left"]) == (
        4,
        "0.000000",
        "2.000000",
    )
    device.run(a_plan())
    assert float(device.rounds.status()["epsilon_left"]) == pytest.approx(
        2 - device.account.epsilon(), abs=1e-6
    )


def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "edge_client")]))


@pytest.mark.slow
def test_the_real_trainer_s_update_is_one_that_the_server_admits(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    _environment(monkeypatch)
    from fedaigc_server.rounds.admit import admit

    device.restart(LocalRounds)
    data = device.run(a_plan())
    update = admit(data, a_plan(), SIGNING.public, NODE)
    assert update.moved == pytest.approx(2.0, rel=0.2)
    assert isinstance(update.adapter_delta, Adapter)
    log = (device.folder / "logs" / "trainer.log").read_bytes()
    assert b"good" not in log


@pytest.mark.slow
def test_a_trainer_killed_with_kill_9_costs_its_epsilon_and_the_retry_succeeds(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    _environment(monkeypatch)
    import psutil

    device.restart(LocalRounds)

    async def killed() -> None:
        running = asyncio.create_task(device.rounds.run(a_plan().signed(RELEASE)))
        while not psutil.Process().children():  # noqa: ASYNC110 (another process gives no event)
            await asyncio.sleep(0.01)
        os.kill(psutil.Process().children()[0].pid, signal.SIGKILL)
        with pytest.raises(TrainingFailed, match="without a result"):
            await running

    asyncio.run(killed())
    assert device.account.epsilon() == epsilon(a_plan().mechanisms)
    assert list((device.folder / JOBS_FOLDER).iterdir()) == []
    device.restart(LocalRounds)
    update = NodeUpdate.open(device.run(a_plan()), SIGNING.public)
    assert update.epsilon_spent == epsilon(a_plan().mechanisms * 2)


@pytest.mark.slow
def test_a_trainer_that_is_too_slow_is_ended_at_the_deadline(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    _environment(monkeypatch)
    device.restart(LocalRounds)
    with pytest.raises(TrainingFailed, match="deadline"):
        device.run(a_plan(RoundId("r-0000000000000001"), deadline=NOW + 6))
