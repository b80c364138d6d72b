"""One round as a list of named steps, each durable and idempotent by the round's name.

    begin -> statuses -> update (one a node) -> close -> released | failed

The steps are called over a unix socket by a Flower run that may die and be started again; what it was told
before it is told again. Whatever arrives twice is answered twice and counted once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from fedaigc.canonical import Json, parse_record
from fedaigc.errors import FedaigcError, NotAuthorised, RoundFailed, StorageError, UpdateRefused
from fedaigc.identifiers import NodeId, RoundId, new_round_id
from fedaigc.privacy_account import Mechanism
from fedaigc.round_plan import RoundPlan
from fedaigc.signing import SigningKey, b64, unb64
from fedaigc.update import NodeUpdate
from fedaigc_server.clock import Clock
from fedaigc_server.registry import ACTIVE, Node, Registry
from fedaigc_server.rounds.admit import admit
from fedaigc_server.rounds.learning_settings import LearningSettings
from fedaigc_server.rounds.plan import NodeStatus, plan_round
from fedaigc_server.rounds.release import Release
from fedaigc_server.rounds.round_record import RoundRecord
from fedaigc_server.rounds.round_store import (
    ACCEPTED,
    AGGREGATING,
    DECLINED,
    FAILED,
    PLANNED,
    QUERYING,
    REFUSED,
    RELEASED,
    Round,
    RoundStore,
    RoundUpdate,
)
from fedaigc_server.rounds.update_files import UpdateFiles

log = logging.getLogger(__name__)

GATHER_S = 20.0
"""How long a round waits for nodes that were seen lately to be online."""
QUERY_S = 60.0
SEEN_LATELY_S = 90
"""A device reports every 15 s; one that is silent for longer is asked, but not waited for."""
MAX_STATUS_BYTES = 64 << 10


@dataclass(frozen=True)
class RunRound:
    """The durable state machine; blocking, for worker threads; one step of a round at a time."""

    store: RoundStore
    registry: Registry
    files: UpdateFiles
    record: RoundRecord
    release: Release
    learning: LearningSettings
    release_key: SigningKey
    clock: Clock
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def create(self, min_nodes: int, deadline_s: int) -> RoundId:
        """Begin a round that closes within `deadline_s` seconds; raises RoundFailed while one runs."""
        round_id, now = new_round_id(), self.clock.seconds()
        self.store.create(round_id, min_nodes, now, now + deadline_s)
        log.info("event=round_created round=%s min_nodes=%d", round_id, min_nodes)
        return round_id

    def begin(self, round_id: str, attempt: int) -> dict[str, Json]:
        """Whom to ask: Flower ids of every active node, and of those that are expected to be online."""
        with self._lock:
            found = self._open(round_id, attempt)
            if found.state == PLANNED:
                self.store.change(found.id, state=QUERYING)
            nodes, now = self.registry.active(), self.clock.seconds()
            expected = [node for node in nodes if now - (node.last_seen or node.enrolled) < SEEN_LATELY_S]
            left = max(1.0, float(found.deadline - now))
            return {
                "planned": found.plan is not None,
                "nodes": [node.flower_id for node in nodes],
                "expected": [node.flower_id for node in expected],
                "gather_s": min(GATHER_S, left / 4),
                "query_s": min(QUERY_S, left / 3),
            }

    def statuses(self, round_id: str, attempt: int, answers: Mapping[str, str]) -> dict[str, Json]:
        """What the nodes answered, Flower id -> base64; returns the plan and who is invited and still owes.

        Raises RoundFailed, and the round has failed, when too few nodes can take part.
        """
        with self._lock:
            found = self._open(round_id, attempt)
            if found.plan is None:
                self._plan(found, answers)
                found = self._open(round_id, attempt)
            done = {update.node for update in self.store.updates(found.id) if update.verdict != DECLINED}
            owing = [self.registry.node(node) for node in found.invited if node not in done]
            return {
                "plan": b64(found.plan or b""),
                "invited": [node.flower_id for node in owing if node and node.standing == ACTIVE],
                "deadline_s": max(1, found.deadline - self.clock.seconds()),
            }

    def update(self, round_id: str, attempt: int, flower_id: str, data: bytes) -> dict[str, Json]:
        """A node's signed update: judged once, stored, and recorded in the ledger whatever the verdict."""
        with self._lock:
            found = self._open(round_id, attempt)
            node = self._invited(found, flower_id)
            known = {update.node: update for update in self.store.updates(found.id)}.get(node.id)
            if known is None or known.verdict == DECLINED:
                known = self._judge(found, node, data)
            return {"accepted": known.verdict == ACCEPTED, "reason": known.reason}

    def declined(self, round_id: str, attempt: int, flower_id: str, code: str) -> None:
        """A node says that it has no update; `code` is an error code, never a text from the device."""
        with self._lock:
            found = self._open(round_id, attempt)
            node = self._invited(found, flower_id)
            update = RoundUpdate(node.id, DECLINED, code, None, None)
            self.store.keep_update(found.id, update, self.clock.seconds())
            log.info("event=node_declined round=%s node=%s code=%s", found.id, node.id, code)

    def close(self, round_id: str, attempt: int | None = None) -> dict[str, Json]:
        """Aggregate what was accepted and release a policy, or fail with the reason: it does not raise that.

        With `attempt`, only while that attempt runs the round.
        """
        with self._lock:
            found = self.store.round(round_id)
            if attempt is not None and not found.ended:
                self._open(round_id, attempt)
            if not found.ended:
                try:
                    self._aggregate(found)
                except StorageError:
                    # A full disk is no verdict on the round: it is closed when there is room again.
                    raise
                except FedaigcError as error:
                    self._fail(found, str(error))
            found = self.store.round(round_id)
            return {"state": found.state, "reason": found.reason, "policy": found.policy}

    def fail(self, round_id: str, reason: str) -> None:
        """Close a round without a result."""
        with self._lock:
            self._fail(self.store.round(round_id), reason)

    def _open(self, round_id: str, attempt: int) -> Round:
        found = self.store.round(round_id)
        if found.ended:
            raise RoundFailed("The round has ended", found.reason or found.state, "begin another one")
        if attempt != found.attempt:
            raise RoundFailed("Another attempt runs this round", "this one was given up", "stop")
        return found

    def _plan(self, found: Round, answers: Mapping[str, str]) -> None:
        statuses = [status for item in answers.items() if (status := self._status(*item)) is not None]
        try:
            if answers and not statuses:
                raise RoundFailed(
                    f"None of {len(answers)} answers could be used",
                    "the devices run another version, or are no longer enrolled",
                    "update them: see fedaigc-server node list",
                )
            plan, invited = plan_round(
                found.id,
                self.release.parent(),
                statuses,
                self.learning,
                self.release_key,
                self.clock.seconds(),
                found.deadline,
            )
            if len(invited) < found.min_nodes:
                raise RoundFailed(
                    f"{len(invited)} nodes can take part and {found.min_nodes} are needed",
                    f"{len(answers)} answered",
                    "wait for more feedback or more devices, or run with a lower --min-nodes",
                )
        except FedaigcError as error:
            self._fail(found, str(error))
            raise
        self.store.keep_plan(found.id, plan, list(invited))
        log.info("event=round_planned round=%s invited=%d", found.id, len(invited))

    def _status(self, flower_id: str, answer: str) -> NodeStatus | None:
        node = self.registry.by_flower_id(flower_id)
        try:
            status = NodeStatus.from_json(parse_record(unb64(answer), MAX_STATUS_BYTES))
        except FedaigcError as error:
            log.warning("event=status_refused flower_id=%s code=%s", flower_id, error.code)
            return None
        return status if node is not None and node.standing == ACTIVE and status.node == node.id else None

    def _invited(self, found: Round, flower_id: str) -> Node:
        node = self.registry.by_flower_id(flower_id)
        if node is None or node.id not in found.invited or node.standing != ACTIVE:
            raise NotAuthorised("This node is not invited to the round", "", "wait for the next round")
        return node

    def _judge(self, found: Round, node: Node, data: bytes) -> RoundUpdate:
        digest = NodeUpdate.digest(data)
        plan = RoundPlan.open(found.plan or b"", self.release_key.public)
        try:
            spent = self.store.spent(node.id)
            update = admit(data, plan, node.signing_key, node.id, spent, self._admitted(node.id))
        except UpdateRefused as refusal:
            verdict = RoundUpdate(node.id, REFUSED, str(refusal), digest, None)
            self.record.refused(found.id, node.id, plan.parent, digest, str(refusal))
        else:
            verdict = RoundUpdate(node.id, ACCEPTED, "", digest, update.epsilon_spent)
            # Bytes first, then the ledger, then the row: a row without its bytes would fail the round.
            self.files.keep(found.id, node.id, data)
            self.record.accepted(update, digest)
        self.store.keep_update(found.id, verdict, self.clock.seconds())
        log.info("event=update_judged round=%s node=%s verdict=%s", found.id, node.id, verdict.verdict)
        return verdict

    def _admitted(self, node: NodeId) -> list[Mechanism]:
        plans = [RoundPlan.open(plan, self.release_key.public) for plan in self.store.admitted_plans(node)]
        return [mechanism for plan in plans for mechanism in plan.mechanisms]

    def _aggregate(self, found: Round) -> None:
        judged = self.store.updates(found.id)
        accepted = [update for update in judged if update.verdict == ACCEPTED and self._in(update.node)]
        if len(accepted) < max(1, found.min_nodes):
            others = "; ".join(f"{update.node}: {update.reason}" for update in judged if update.reason)
            raise RoundFailed(
                f"{len(accepted)} usable updates came and {found.min_nodes} are needed",
                others[:400] or f"{len(found.invited)} nodes were invited and did not answer in time",
                "see that the devices are on and have feedback, then run another round",
            )
        self.store.change(found.id, state=AGGREGATING)
        updates = [self._read(found, update) for update in accepted]
        plan = RoundPlan.open(found.plan or b"", self.release_key.public)
        manifest, signed = self.release.release(plan, updates, self.clock.minute())
        self.record.released(manifest, signed)
        self.store.change(
            found.id, state=RELEASED, policy=manifest.version, closed=self.clock.seconds(), reason=""
        )
        self.files.drop(found.id)
        log.info("event=round_released round=%s policy=%d", found.id, manifest.version)

    def _in(self, node: NodeId) -> bool:
        # What a node sent before it was revoked is not averaged either.
        found = self.registry.node(node)
        return found is not None and found.standing == ACTIVE

    def _read(self, found: Round, update: RoundUpdate) -> NodeUpdate:
        node = self.registry.node(update.node)
        if node is None:
            raise RoundFailed("A node left the registry during its round", "", "run another round")
        return NodeUpdate.open(self.files.read(found.id, update.node), node.signing_key)

    def _fail(self, found: Round, reason: str) -> None:
        self.store.change(found.id, state=FAILED, reason=reason, closed=self.clock.seconds())
        self.files.drop(found.id)
        log.warning("event=round_failed round=%s", found.id)
