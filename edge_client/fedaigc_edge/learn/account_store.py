"""The device's privacy account on disk: spends are written before the act and never given back.

One round goes through these durable states:

    (none) --reserve--> reserved --start--> started --keep_result--> done

| what happens | what it costs |
|---|---|
| the same plan again while reserved | nothing: no pair was read for it |
| the same plan again while started (something was killed) | it pays again, MAX_ATTEMPTS tries in all |
| the same plan again when done | nothing: the stored update is returned, nothing is trained |
| another plan under a known round id | refused |

Paying again is needed: an earlier attempt drew its noise, and nobody can tell what became of its result.
A reservation or a start is committed, then the mark beside learn.db is raised, and only then may the caller
go on: a learn.db that shows less than the mark has forgotten that data was read, and is refused.

The unit is one pair on this device, added or removed; pairs are used in every round as long as they are
kept, and the account composes all rounds as if each pair had been in all of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedaigc.errors import NotAuthorised, TrainingFailed
from fedaigc.identifiers import RoundId
from fedaigc.privacy_account import EPSILON_LIMIT, Mechanism, check_room
from fedaigc_edge.learn.learn_database import LearnDatabase

MAX_ATTEMPTS = 2
"""A round that dies twice on a device is not tried a third time: each try costs as much as a round."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS spends (
    id INTEGER PRIMARY KEY AUTOINCREMENT, round TEXT NOT NULL, attempt INTEGER NOT NULL,
    mechanisms TEXT NOT NULL, epsilon REAL NOT NULL, minute INTEGER NOT NULL, UNIQUE (round, attempt)
) STRICT;
CREATE TABLE IF NOT EXISTS rounds (
    round TEXT PRIMARY KEY, plan TEXT NOT NULL, attempt INTEGER NOT NULL, state TEXT NOT NULL,
    result BLOB, leaves BLOB
) STRICT;
"""


@dataclass(frozen=True)
class Reservation:
    """Room that is paid for: the round, which attempt, and the account's epsilon with it."""

    round: RoundId
    attempt: int
    epsilon: float


class AccountStore:
    """The account in learn.db; safe from any thread. `now` gives Unix seconds.

    Raises StorageError when learn.db shows less than was ever reserved here.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._database = LearnDatabase(path, SCHEMA)
        self._now = now
        try:
            self._require_nothing_forgotten()
            self._raise_mark()
        except BaseException:
            self._database.close()
            raise

    def result(self, round_id: RoundId, plan: str) -> bytes | None:
        """The update that this round made here, or None. `plan` is the hash of the plan's bytes.

        Raises NotAuthorised when the round is known with another plan.
        """
        row = self._database.row("SELECT plan, result FROM rounds WHERE round = ?", (round_id,))
        if row is None:
            return None
        _require_same_plan(row["plan"], plan)
        return None if row["result"] is None else bytes(row["result"])

    def reserve(self, round_id: RoundId, plan: str, mechanisms: Sequence[Mechanism]) -> Reservation:
        """Pay for a round before any feedback is read; on the disk when it returns.

        Raises PrivacyBudgetExceeded when there is no room, NotAuthorised for another plan under a known id,
        TrainingFailed when the round has been tried too often, StorageError when it cannot be written.
        """
        reservation = self._reserved(round_id, plan, mechanisms)
        # For a known reservation too: a full disk may have kept the mark from being raised for it.
        self._raise_mark()
        return reservation

    def start(self, reservation: Reservation) -> None:
        """Note that this attempt begins to read feedback: from here on a retry pays again.

        Raises TrainingFailed unless the reservation is the round's open one, StorageError when it cannot be
        written: then nothing may be read.
        """
        self._advance(reservation, "reserved", "started", None, None)
        self._raise_mark()

    def keep_result(self, reservation: Reservation, update: bytes, leaves: bytes) -> None:
        """Store the signed update and the leaves under its fingerprint root, before it is sent.

        Raises TrainingFailed unless the reservation is the round's started one.
        """
        self._advance(reservation, "started", "done", update, leaves)

    def spent(self) -> list[Mechanism]:
        """Every mechanism that was ever reserved here, in order."""
        rows = self._database.rows("SELECT mechanisms FROM spends ORDER BY id")
        return [Mechanism.from_json(item) for row in rows for item in json.loads(row["mechanisms"])]

    def epsilon(self) -> float:
        """The account's epsilon at DELTA; 0.0 before the first round."""
        row = self._database.row("SELECT epsilon FROM spends ORDER BY id DESC LIMIT 1")
        return float(row["epsilon"]) if row else 0.0

    def left(self) -> float:
        """How much of EPSILON_LIMIT is not spent, never below 0."""
        return max(0.0, EPSILON_LIMIT - self.epsilon())

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def _reserved(self, round_id: RoundId, plan: str, mechanisms: Sequence[Mechanism]) -> Reservation:
        with self._database.transaction() as write:
            row = write.execute("SELECT * FROM rounds WHERE round = ?", (round_id,)).fetchone()
            attempt = 1
            if row is not None:
                _require_same_plan(row["plan"], plan)
                if row["state"] == "reserved":
                    return Reservation(round_id, row["attempt"], self.epsilon())
                attempt = row["attempt"] + 1
            if attempt > MAX_ATTEMPTS or (row is not None and row["state"] == "done"):
                raise TrainingFailed(
                    "The round was tried too often on this device",
                    f"it did not end {attempt - 1} times, and every try costs epsilon",
                    "wait for the next round; look at logs/trainer.log",
                )
            after = check_room(self.spent(), mechanisms)
            write.execute(
                "INSERT INTO spends (round, attempt, mechanisms, epsilon, minute) VALUES (?, ?, ?, ?, ?)",
                (round_id, attempt, _text(mechanisms), after, int(self._now() // 60)),
            )
            write.execute(
                "INSERT INTO rounds (round, plan, attempt, state) VALUES (?, ?, ?, 'reserved')"
                " ON CONFLICT (round) DO UPDATE SET attempt = excluded.attempt, state = 'reserved'",
                (round_id, plan, attempt),
            )
        return Reservation(round_id, attempt, after)

    def _height(self) -> int:
        # Starts count too: a copy made between the two would let a round be trained again without paying.
        row = self._database.row("SELECT sum(2 * attempt - (state = 'reserved')) AS steps FROM rounds")
        return int(row["steps"] or 0) if row else 0

    def _raise_mark(self) -> None:
        self._database.made.note(self._height(), epsilon=self.epsilon())

    def _require_nothing_forgotten(self) -> None:
        made = self._database.made
        made.require_height(self._height())
        mark = made.reached()
        spent = float(mark.facts.get("epsilon", 0.0)) if mark is not None else 0.0
        if self.epsilon() < spent:
            raise made.older(f"it shows epsilon {self.epsilon():.3f}, and {spent:.3f} were spent")

    def _advance(
        self, reservation: Reservation, old: str, new: str, result: bytes | None, leaves: bytes | None
    ) -> None:
        with self._database.transaction() as write:
            changed = write.execute(
                "UPDATE rounds SET state = ?, result = ?, leaves = ?"
                " WHERE round = ? AND attempt = ? AND state = ?",
                (new, result, leaves, reservation.round, reservation.attempt, old),
            ).rowcount
            if changed != 1:
                raise TrainingFailed(
                    "A reservation cannot be used twice", f"its round is not {old}", "run another round"
                )


def _text(mechanisms: Sequence[Mechanism]) -> str:
    return json.dumps([mechanism.to_json() for mechanism in mechanisms])


def _require_same_plan(known: str, asked: str) -> None:
    if known != asked:
        raise NotAuthorised(
            "The round's plan was changed",
            "this device knows the round with another plan",
            "begin another round on the server",
        )
