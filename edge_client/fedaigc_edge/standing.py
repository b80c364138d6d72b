"""Whether this device may generate: what the server last said about it, and what its owner decided."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fedaigc.canonical import parse_record
from fedaigc.errors import FedaigcError, NotAuthorised, VerificationFailed
from fedaigc.files import read_private, write_private

STANDING_FILE = "standing.json"


class State(StrEnum):
    """The three standings of a device."""

    ACTIVE = "active"
    REVOKED = "revoked"
    LEFT = "left"


@dataclass(frozen=True)
class Standing:
    """One standing, since when (Unix seconds), and the reason as the server or the owner gave it."""

    state: State = State.ACTIVE
    since: int = 0
    reason: str = ""
    do_next: str = ""

    def refusal(self) -> NotAuthorised | None:
        """The error that a caller of a device that may not generate gets; None when it may."""
        if self.state is State.ACTIVE:
            return None
        if self.state is State.LEFT:
            return NotAuthorised(
                "This device left its server", self.reason, "run the join command again to return"
            )
        return NotAuthorised(
            "This device may no longer generate: its server has revoked it",
            self.reason,
            self.do_next or "ask the operator for a new token; run: fedaigc-edge status",
        )


class StandingRecord:
    """The current standing; survives a restart, so that a revoked device stays silent while it is offline."""

    def __init__(self, data: Path, now: Callable[[], float] = time.time) -> None:
        self._path = data / STANDING_FILE
        self._now = now
        self._current = self._load()
        self._listeners: list[Callable[[Standing], None]] = []

    @property
    def current(self) -> Standing:
        """What holds now."""
        return self._current

    def on_change(self, listener: Callable[[Standing], None]) -> None:
        """Tell `listener` every new standing; it runs in the caller's thread and must not block."""
        self._listeners.append(listener)

    def revoked(self, refusal: FedaigcError) -> None:
        """The server refused a signed call of this device."""
        self._set(State.REVOKED, f"{refusal.what}. {refusal.why}".strip(". "), refusal.do_next)

    def confirmed(self) -> None:
        """The server accepted a signed call and called the device active."""
        if self._current.state is State.REVOKED:
            self._set(State.ACTIVE, "", "")

    def left(self) -> None:
        """The owner ended this device's part; what the server revoked stays revoked."""
        if self._current.state is not State.REVOKED:
            self._set(State.LEFT, "its owner ran: fedaigc-edge leave", "")

    def returned(self) -> None:
        """The owner ran the join command again."""
        if self._current.state is State.LEFT:
            self._set(State.ACTIVE, "", "")

    def _set(self, state: State, reason: str, do_next: str) -> None:
        if self._current.state is state:
            return
        self._current = Standing(state, int(self._now()), reason, do_next)
        record = {"state": state.value, "since": self._current.since, "reason": reason, "do_next": do_next}
        write_private(self._path, json.dumps(record).encode("utf-8"))
        for listener in self._listeners:
            listener(self._current)

    def _load(self) -> Standing:
        if not self._path.exists():
            return Standing()
        try:
            record = parse_record(read_private(self._path))
            return Standing(
                State(record["state"]), int(record["since"]), str(record["reason"]), str(record["do_next"])
            )
        except (VerificationFailed, KeyError, TypeError, ValueError):
            # A damaged mark must not silently allow what it may have forbidden.
            return Standing(
                State.REVOKED, 0, f"{self._path.name} is damaged", "the next contact with the server mends it"
            )
