"""Rounds and the updates they received, so that a round survives the server's death at any point."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedaigc.canonical import Json
from fedaigc.errors import RequestInvalid, RoundFailed
from fedaigc.identifiers import NodeId, RoundId
from fedaigc_server.database import Database, Row

SCHEMA = """
CREATE TABLE IF NOT EXISTS rounds (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
    attempt INTEGER NOT NULL DEFAULT 0, flower_run TEXT, min_nodes INTEGER NOT NULL,
    created INTEGER NOT NULL, deadline INTEGER NOT NULL, plan BLOB,
    invited TEXT NOT NULL DEFAULT '[]', policy INTEGER, closed INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS round_updates (
    round TEXT NOT NULL REFERENCES rounds (id), node TEXT NOT NULL, verdict TEXT NOT NULL,
    reason TEXT NOT NULL, digest TEXT, epsilon REAL, received INTEGER NOT NULL, PRIMARY KEY (round, node)
) STRICT;
"""

PLANNED, QUERYING, TRAINING, AGGREGATING = "planned", "querying", "training", "aggregating"
RELEASED, FAILED = "released", "failed"
ENDED = (RELEASED, FAILED)
ACCEPTED, REFUSED, DECLINED = "accepted", "refused", "declined"
"""Verdicts: counted, not counted, and the node itself said that it has no update."""


@dataclass(frozen=True)
class Round:
    """One aggregation cycle; times are Unix seconds, `invited` holds node pseudonyms."""

    id: RoundId
    state: str
    reason: str
    attempt: int
    flower_run: str | None
    min_nodes: int
    created: int
    deadline: int
    plan: bytes | None
    invited: tuple[NodeId, ...]
    policy: int | None
    closed: int | None

    @property
    def ended(self) -> bool:
        """Whether nothing can change about it any more."""
        return self.state in ENDED


@dataclass(frozen=True)
class RoundUpdate:
    """What became of one node in a round; `epsilon` is the node's whole account."""

    node: NodeId
    verdict: str
    reason: str
    digest: str | None
    epsilon: float | None


class RoundStore:
    """The two tables of rounds; thread-safe through the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, round_id: RoundId, min_nodes: int, now: int, deadline: int) -> None:
        """Begin a round; raises RoundFailed while another runs, because both would train from one parent."""
        with self._database.transaction() as write:
            running = write.execute(
                "SELECT id FROM rounds WHERE state NOT IN ('released', 'failed')"
            ).fetchone()
            if running:
                raise RoundFailed(
                    "A round is running already",
                    f"it is {running[0]}",
                    f"wait for it: fedaigc-server round show {running[0]}",
                )
            write.execute(
                "INSERT INTO rounds (id, state, min_nodes, created, deadline) VALUES (?, 'planned', ?, ?, ?)",
                (round_id, min_nodes, now, deadline),
            )

    def round(self, round_id: str) -> Round:
        """One round; raises RequestInvalid when there is none of that name."""
        row = self._database.row("SELECT * FROM rounds WHERE id = ?", (round_id,))
        if row is None:
            raise RequestInvalid(
                "There is no such round", "", "list them: fedaigc-server round list", "round"
            )
        return _round(row)

    def rounds(self, limit: int = 100) -> list[Round]:
        """The newest rounds, newest first."""
        rows = self._database.rows("SELECT * FROM rounds ORDER BY created DESC, rowid DESC LIMIT ?", (limit,))
        return [_round(row) for row in rows]

    def running(self) -> list[Round]:
        """The rounds that have not ended."""
        rows = self._database.rows("SELECT * FROM rounds WHERE state NOT IN ('released', 'failed')")
        return [_round(row) for row in rows]

    def change(self, round_id: RoundId, **values: Json) -> None:
        """Set columns of a round that has not ended; an ended round stays as it is."""
        columns = ", ".join(f"{name} = ?" for name in values)
        with self._database.transaction() as write:
            write.execute(
                f"UPDATE rounds SET {columns} WHERE id = ? AND state NOT IN ('released', 'failed')",  # noqa: S608
                (*values.values(), round_id),
            )

    def keep_plan(self, round_id: RoundId, plan: bytes, invited: list[NodeId]) -> None:
        """Store the signed plan once; a plan that is there already stays."""
        with self._database.transaction() as write:
            write.execute(
                "UPDATE rounds SET plan = ?, invited = ?, state = 'training' WHERE id = ? AND plan IS NULL",
                (plan, json.dumps(invited), round_id),
            )

    def updates(self, round_id: RoundId) -> list[RoundUpdate]:
        """What every node that was heard of sent, by node."""
        rows = self._database.rows("SELECT * FROM round_updates WHERE round = ? ORDER BY node", (round_id,))
        return [
            RoundUpdate(NodeId(row["node"]), row["verdict"], row["reason"], row["digest"], row["epsilon"])
            for row in rows
        ]

    def spent(self, node: NodeId) -> float:
        """The largest privacy account that an accepted update of this node ever reported; 0.0 for none."""
        row = self._database.row(
            "SELECT max(epsilon) AS spent FROM round_updates WHERE node = ? AND verdict = 'accepted'", (node,)
        )
        return float(row["spent"] or 0.0) if row else 0.0

    def admitted_plans(self, node: NodeId) -> list[bytes]:
        """The signed plan of every round, however it ended, in which an update of this node was accepted."""
        rows = self._database.rows(
            "SELECT plan FROM rounds JOIN round_updates ON round = id"
            " WHERE node = ? AND verdict = 'accepted' AND plan IS NOT NULL",
            (node,),
        )
        return [bytes(row["plan"]) for row in rows]

    def keep_update(self, round_id: RoundId, update: RoundUpdate, now: int) -> None:
        """Store a node's verdict; a later one may replace a decline, never an accepted or refused update."""
        with self._database.transaction() as write:
            write.execute(
                "INSERT INTO round_updates VALUES (?,?,?,?,?,?,?) ON CONFLICT (round, node) DO UPDATE SET"
                " verdict = excluded.verdict, reason = excluded.reason, digest = excluded.digest,"
                " epsilon = excluded.epsilon, received = excluded.received WHERE verdict = 'declined'",
                (round_id, update.node, update.verdict, update.reason, update.digest, update.epsilon, now),
            )


def round_json(found: Round, updates: Sequence[RoundUpdate] | None = None) -> Mapping[str, Any]:
    """What the admin API shows of a round; `updates` only where they were looked up."""
    shown: dict[str, Any] = {
        "round": found.id,
        "state": found.state,
        "reason": found.reason,
        "policy": found.policy,
        "attempt": found.attempt,
        "min_nodes": found.min_nodes,
        "created": found.created,
        "deadline": found.deadline,
        "closed": found.closed,
        "invited": list(found.invited),
    }
    if updates is not None:
        kept = ("node", "verdict", "reason", "epsilon")
        shown["updates"] = [{name: getattr(update, name) for name in kept} for update in updates]
    return shown


def _round(row: Row) -> Round:
    return Round(
        id=RoundId(row["id"]),
        state=row["state"],
        reason=row["reason"],
        attempt=row["attempt"],
        flower_run=row["flower_run"],
        min_nodes=row["min_nodes"],
        created=row["created"],
        deadline=row["deadline"],
        plan=bytes(row["plan"]) if row["plan"] is not None else None,
        invited=tuple(NodeId(node) for node in json.loads(row["invited"])),
        policy=row["policy"],
        closed=row["closed"],
    )
