"""One round on the device: signed plan in, signed update out, epsilon reserved before feedback is read."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedaigc.adapter import Adapter
from fedaigc.canonical import Json
from fedaigc.child_process import ChildSpec, start_child, stop_child
from fedaigc.errors import NotAuthorised, TrainingFailed, VerificationFailed
from fedaigc.fingerprint import blob_digest
from fedaigc.identifiers import NodeId, PolicyVersion
from fedaigc.preference import Preference
from fedaigc.privacy_account import DELTA
from fedaigc.reward_head import RewardHead
from fedaigc.round_plan import RoundPlan
from fedaigc.signing import PublicKey, SigningKey
from fedaigc.update import NodeUpdate
from fedaigc_edge.learn.account_store import AccountStore, Reservation
from fedaigc_edge.learn.feedback_store import FeedbackStore
from fedaigc_edge.learn.fingerprint_root import fingerprint_root
from fedaigc_edge.learn.trainer import ENVIRONMENT
from fedaigc_edge.learn.training_job import (
    Trained,
    erase_job,
    erase_leftovers,
    new_job,
    read_progress,
    read_trained,
)
from fedaigc_edge.model.store import HF, ModelFolder

JOBS_FOLDER = Path("learn") / "jobs"
TRAINER_LOG = Path("logs") / "trainer.log"
LOWEST_PRIORITY = 19
GRACE_S = 2.0
SPARE_S = 5.0
"""Training ends this long before the plan's deadline, so that its update still arrives."""


@dataclass(frozen=True)
class PolicyInUse:
    """The policy in force, to train from: version 0 has neither adapter nor head."""

    version: PolicyVersion
    adapter: Adapter | None
    head: RewardHead | None


class LocalRounds:
    """Runs the rounds of one device, one at a time.

    Args:
        data: the device's folder.
        model: the model being served.
        node, signing_key: who signs the updates.
        release_key: whose plans are obeyed.
        feedback, account: the device's stores.
        policy: tells the policy in force.
        now: Unix seconds.
    """

    def __init__(
        self,
        data: Path,
        model: ModelFolder,
        node: NodeId,
        signing_key: SigningKey,
        release_key: PublicKey,
        feedback: FeedbackStore,
        account: AccountStore,
        policy: Callable[[], PolicyInUse],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._data = data
        self._model = model
        self._node = node
        self._signing_key = signing_key
        self._release_key = release_key
        self._feedback = feedback
        self._account = account
        self._policy = policy
        self._now = now
        self._lock = asyncio.Lock()
        self._job: Path | None = None
        erase_leftovers(data / JOBS_FOLDER)

    def status(self) -> dict[str, Json]:
        """What the server is told on `query.status`.

        The number of pairs is told as the power of two below it: it is not protected by the noise.
        """
        pairs, spent = self._feedback.count(), self._account.epsilon()
        return {
            "node": self._node,
            "base_model": self._model.base_model,
            "shape": self._model.shape.to_json(),
            "head_layer": self._model.head_layer,
            "head_dim": self._model.head_dim,
            "pairs_new": 1 << (pairs.bit_length() - 1) if pairs else 0,
            "epsilon_spent": f"{spent:.6f}",
            "epsilon_left": f"{self._account.left():.6f}",
            "policy": self._policy().version,
        }

    def progress(self) -> dict[str, Json] | None:
        """How far the trainer is (stage, done, total); None while no round runs."""
        job = self._job
        return read_progress(job) if job is not None else None

    async def run(self, plan_bytes: bytes) -> bytes:
        """The signed update for a signed plan; asked again, the same bytes, neither trained nor paid twice.

        Raises NotAuthorised when the plan is not from our server or was changed, PrivacyBudgetExceeded when
        the account has no room (no feedback was read then), ModelError when the weights on disk were changed,
        TrainingFailed when no usable update came of it.
        """
        async with self._lock:
            plan = self._open(plan_bytes)
            digest = blob_digest(plan_bytes)
            known = await asyncio.to_thread(self._account.result, plan.round, digest)
            if known is not None:
                return known
            policy = self._policy()
            self._require_fit(plan, policy)
            await asyncio.to_thread(self._model.verify, HF)
            reservation = await asyncio.to_thread(self._account.reserve, plan.round, digest, plan.mechanisms)
            await asyncio.to_thread(self._account.start, reservation)
            # Only now is a text of feedback read.
            pairs = await asyncio.to_thread(self._feedback.pairs)
            trained = await self._train(plan_bytes, plan, policy, pairs)
            return await asyncio.to_thread(self._finish, plan, reservation, pairs, trained)

    def _open(self, plan_bytes: bytes) -> RoundPlan:
        try:
            return RoundPlan.open(plan_bytes, self._release_key)
        except VerificationFailed as error:
            raise NotAuthorised(
                "The round's plan is not from the server that this device joined",
                f"{error.what}: {error.why}",
                "check that server and device run versions that fit",
            ) from None

    def _require_fit(self, plan: RoundPlan, policy: PolicyInUse) -> None:
        model = self._model
        for misfit, why in (
            (plan.base_model != model.base_model, "it is for another base model"),
            (plan.shape != model.shape, "its adapter has another shape than this model's"),
            (
                (plan.head_layer, plan.head_dim) != (model.head_layer, model.head_dim),
                "its reward head reads another layer than this model's",
            ),
            (
                plan.parent != policy.version,
                f"it starts from policy {plan.parent}, here {policy.version} is in force",
            ),
            (plan.deadline <= self._now() + SPARE_S, "its deadline has passed"),
            (
                self._feedback.count() < plan.min_pairs,
                f"this device has fewer than {plan.min_pairs} judged pairs",
            ),
        ):
            if misfit:
                raise TrainingFailed("This device takes no part in the round", why, "nothing was spent")

    async def _train(
        self, plan_bytes: bytes, plan: RoundPlan, policy: PolicyInUse, pairs: list[Preference]
    ) -> Trained:
        adapter = policy.adapter or Adapter.zero(plan.shape, plan.base_model)
        head = policy.head or RewardHead.zero(plan.head_dim, plan.head_layer, plan.base_model)
        jobs = self._data / JOBS_FOLDER
        job = await asyncio.to_thread(
            new_job, jobs, self._model.hf, plan_bytes, self._release_key, adapter, head, pairs
        )
        self._job = job
        try:
            code = await self._run_trainer(job, plan.deadline - SPARE_S - self._now())
            return await asyncio.to_thread(read_trained, job, code)
        except VerificationFailed as error:
            raise TrainingFailed(
                "The trainer's result cannot be read", error.what, "run another round"
            ) from None
        finally:
            self._job = None
            erase_job(job)

    async def _run_trainer(self, job: Path, seconds: float) -> int:
        spec = ChildSpec(
            name="trainer",
            arguments=(sys.executable, "-m", "fedaigc_edge.learn.trainer", str(job)),
            owner=self._data,
            log=self._data / TRAINER_LOG,
            environment=ENVIRONMENT,
            nice=LOWEST_PRIORITY,
        )
        process = await start_child(spec)
        try:
            return await asyncio.wait_for(process.wait(), max(0.0, seconds))
        except TimeoutError:
            raise TrainingFailed(
                "Training did not end before the round's deadline",
                "this device is too slow, or busy",
                "run rounds with a longer --deadline",
            ) from None
        finally:
            await asyncio.shield(stop_child(process, GRACE_S))

    def _finish(
        self, plan: RoundPlan, reservation: Reservation, pairs: list[Preference], trained: Trained
    ) -> bytes:
        learned = fingerprint_root(pairs)
        update = NodeUpdate(
            round=plan.round,
            node=self._node,
            parent=plan.parent,
            base_model=plan.base_model,
            adapter_delta=trained.adapter_delta,
            head_delta=trained.head_delta,
            mechanisms=plan.mechanisms,
            epsilon_spent=reservation.epsilon,
            delta=DELTA,
            fingerprint_root=learned.root,
            moved=trained.adapter_delta.norm,
        )
        signed = update.signed(self._signing_key)
        self._account.keep_result(reservation, signed, b"".join(learned.leaves))
        self._feedback.mark_used(pair.id for pair in pairs)
        return signed
