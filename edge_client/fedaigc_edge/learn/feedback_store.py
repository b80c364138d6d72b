"""Judged pairs on the device, and the recent answers that a thumb or a correction may refer to.

Nothing here is ever logged or sent. A round uses every stored pair: choosing among them would let one pair
push another out, which doubles the sensitivity that the noise is made for. For the same reason a full store
refuses new pairs instead of dropping old ones.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from blake3 import blake3

from fedaigc.errors import RequestInvalid, StorageError
from fedaigc.preference import MAX_TEXT, Preference, Turn
from fedaigc.round_plan import MAX_DEVICE_PAIRS
from fedaigc_edge.learn.feedback_form import EditedAnswer, JudgedPair, Thumb, read_feedback
from fedaigc_edge.learn.feedback_reply import LONE_THUMB, PAIRED_THUMB
from fedaigc_edge.learn.learn_database import LearnDatabase

MAX_ANSWERS = 2000
ANSWER_DAYS = 7
PAIR_DAYS = 180
"""Pairs are deleted by age alone, whatever else is stored."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    id INTEGER PRIMARY KEY AUTOINCREMENT, request TEXT NOT NULL UNIQUE, prompt TEXT NOT NULL,
    prompt_digest BLOB NOT NULL, answer TEXT NOT NULL, commitment BLOB NOT NULL, minute INTEGER NOT NULL,
    thumb TEXT, paired INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS answers_prompt ON answers (prompt_digest);
CREATE TABLE IF NOT EXISTS pairs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, digest BLOB NOT NULL UNIQUE,
    reverse BLOB NOT NULL, prompt TEXT NOT NULL, chosen TEXT NOT NULL, rejected TEXT NOT NULL,
    source TEXT NOT NULL, commitments BLOB NOT NULL, edited_request TEXT, minute INTEGER NOT NULL,
    rounds INTEGER NOT NULL DEFAULT 0
) STRICT;
"""


class Message(Protocol):
    """One message of a prompt, as the serving side has it."""

    @property
    def role(self) -> str:
        """Who says it."""

    @property
    def content(self) -> str:
        """What is said."""


class FeedbackStore:
    """Feedback in learn.db (mode 0600); safe from any thread. `now` gives Unix seconds."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._database = LearnDatabase(path, SCHEMA)
        self._now = now

    def remember_answer(
        self, request_id: str, messages: Sequence[Message], answer: str, commitment: bytes
    ) -> None:
        """Keep an answer for later thumbs and corrections: the newest 2000, at most 7 days.

        An answer that is empty or too long to learn from is not kept. Raises StorageError.
        """
        if not answer.strip() or max(len(answer), *(len(m.content) for m in messages)) > MAX_TEXT:
            return
        prompt = _prompt_text((m.role, m.content) for m in messages)
        minute = self._minute()
        with self._database.unsynced_transaction() as write:
            write.execute(
                "INSERT OR REPLACE INTO answers (request, prompt, prompt_digest, answer, commitment, minute)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (request_id, prompt, _digest(prompt), answer, commitment, minute),
            )
            write.execute("DELETE FROM answers WHERE minute < ?", (minute - ANSWER_DAYS * 1440,))
            write.execute("DELETE FROM answers WHERE id <= (SELECT max(id) FROM answers) - ?", (MAX_ANSWERS,))

    def add(self, feedback: Mapping[str, Any]) -> str:
        """Check and keep one piece of feedback (see feedback_form); returns its id, the same for a repeat.

        Raises RequestInvalid with the field, StorageError when the store is full or the disk fails.
        """
        form = read_feedback(feedback)
        with self._database.transaction() as write:
            write.execute("DELETE FROM pairs WHERE minute < ?", (self._minute() - PAIR_DAYS * 1440,))
            if isinstance(form, JudgedPair):
                prompt = _prompt_text((turn.role, turn.content) for turn in form.prompt)
                return self._keep(write, prompt, form.chosen, form.rejected, "pair", b"")
            answer = self._answer(write, form.request_id)
            if isinstance(form, EditedAnswer):
                return self._keep_edit(write, answer, form)
            return self._keep_thumb(write, answer, form)

    def pairs(self, unused: bool = False) -> list[Preference]:
        """Every pair, oldest first; with `unused` only those that no round has used. Raises StorageError."""
        rows = self._database.rows("SELECT * FROM pairs ORDER BY number")
        return [_preference(row) for row in rows if not unused or not row["rounds"]]

    def count(self, unused: bool = False) -> int:
        """How many pairs there are, without reading any. Raises StorageError."""
        row = self._database.row("SELECT count(*) AS pairs, sum(rounds = 0) AS unused FROM pairs")
        return int(row["unused" if unused else "pairs"] or 0) if row else 0

    def mark_used(self, ids: Iterable[str]) -> None:
        """Note that a round used these pairs; they stay for later rounds, which the account pays for."""
        with self._database.transaction() as write:
            write.executemany("UPDATE pairs SET rounds = rounds + 1 WHERE id = ?", [(item,) for item in ids])

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def _answer(self, write: sqlite3.Connection, request_id: str) -> sqlite3.Row:
        row: sqlite3.Row | None = write.execute(
            "SELECT * FROM answers WHERE request = ?", (request_id,)
        ).fetchone()
        if row is None:
            raise RequestInvalid(
                "The answer is not known here",
                f"this device keeps its last {MAX_ANSWERS} answers for {ANSWER_DAYS} days",
                "send the pair itself: messages, chosen and rejected",
                field="request_id",
            )
        return row

    def _keep_edit(self, write: sqlite3.Connection, answer: sqlite3.Row, form: EditedAnswer) -> str:
        if form.edited == answer["answer"]:
            raise RequestInvalid("The correction changes nothing", "", "send another", field="edited")
        # A second correction of the same answer replaces the first.
        write.execute("DELETE FROM pairs WHERE edited_request = ?", (form.request_id,))
        return self._keep(
            write,
            answer["prompt"],
            form.edited,
            answer["answer"],
            "edit",
            answer["commitment"],
            form.request_id,
        )

    def _keep_thumb(self, write: sqlite3.Connection, answer: sqlite3.Row, form: Thumb) -> str:
        """A thumb waits until another answer to its prompt has the opposite one: then they are a pair."""
        thumb, other = ("up", "down") if form.up else ("down", "up")
        write.execute("UPDATE answers SET thumb = ? WHERE id = ?", (thumb, answer["id"]))
        if answer["paired"]:
            return f"{PAIRED_THUMB}{answer['id']}"
        match = write.execute(
            "SELECT * FROM answers WHERE prompt_digest = ? AND thumb = ? AND paired = 0 AND answer != ?"
            " ORDER BY id DESC LIMIT 1",
            (answer["prompt_digest"], other, answer["answer"]),
        ).fetchone()
        if match is None:
            return f"{LONE_THUMB}{answer['id']}"
        chosen, rejected = (answer, match) if form.up else (match, answer)
        write.execute("UPDATE answers SET paired = 1 WHERE id IN (?, ?)", (answer["id"], match["id"]))
        commitments = chosen["commitment"] + rejected["commitment"]
        return self._keep(
            write, answer["prompt"], chosen["answer"], rejected["answer"], "thumbs", commitments
        )

    def _keep(
        self,
        write: sqlite3.Connection,
        prompt: str,
        chosen: str,
        rejected: str,
        source: str,
        commitments: bytes,
        edited_request: str | None = None,
    ) -> str:
        digest, reverse = _digest(prompt, chosen, rejected), _digest(prompt, rejected, chosen)
        known = write.execute("SELECT id FROM pairs WHERE digest = ?", (digest,)).fetchone()
        if known is not None:
            return str(known["id"])
        # Who judges the same two answers the other way round has changed their mind.
        write.execute("DELETE FROM pairs WHERE digest = ?", (reverse,))
        if self.count() >= MAX_DEVICE_PAIRS:
            raise StorageError(
                "The feedback store is full",
                f"it holds {MAX_DEVICE_PAIRS} pairs, and dropping one for another would weaken privacy",
                f"pairs older than {PAIR_DAYS} days make room by themselves",
            )
        identifier = f"pair-{secrets.token_hex(8)}"
        write.execute(
            "INSERT INTO pairs (id, digest, reverse, prompt, chosen, rejected, source, commitments,"
            " edited_request, minute) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(identifier, digest, reverse, prompt, chosen, rejected, source, commitments),
                *(edited_request, self._minute()),
            ),
        )
        return identifier

    def _minute(self) -> int:
        return int(self._now() // 60)


def _prompt_text(turns: Iterable[tuple[str, str]]) -> str:
    return json.dumps([list(turn) for turn in turns], ensure_ascii=False, separators=(",", ":"))


def _digest(*texts: str) -> bytes:
    return blake3(json.dumps(texts).encode("ascii")).digest()


def _preference(row: sqlite3.Row) -> Preference:
    joined = bytes(row["commitments"])
    return Preference(
        id=row["id"],
        prompt=tuple(Turn(role, content) for role, content in json.loads(row["prompt"])),
        chosen=row["chosen"],
        rejected=row["rejected"],
        source=row["source"],
        commitments=tuple(joined[start : start + 32] for start in range(0, len(joined), 32)),
    )
