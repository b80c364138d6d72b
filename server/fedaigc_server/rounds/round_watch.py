"""Keep a round going though Flower's run of it dies, and end it at its deadline whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import Protocol

from anyio import to_thread

from fedaigc.errors import FedaigcError
from fedaigc_server.clock import Clock
from fedaigc_server.federation.superlink_api import RUNNING
from fedaigc_server.rounds.round_store import Round, RoundStore
from fedaigc_server.rounds.run_round import RunRound

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
CLOSE_GRACE_S = 10
"""After the deadline, how long the Flower run may still take to close the round itself."""


class FlowerRuns(Protocol):
    """The part of SuperLink's Control API that starts, watches and ends runs."""

    def start_run(self, round_id: str, attempt: int) -> str:
        """Start a run; its id."""

    def run_state(self, run_id: str) -> str:
        """GONE, RUNNING or ENDED."""

    def stop_run(self, run_id: str) -> None:
        """End a run."""


@dataclass
class RoundWatch:
    """Submits a running round to Flower, again when its run died, at most `attempts` times."""

    store: RoundStore
    rounds: RunRound
    flower: FlowerRuns
    attempts: int
    clock: Clock
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Look now: a round was created, or a process of Flower died. Call it from the event loop."""
        self._wake.set()

    def forget_runs(self) -> None:
        """After our own restart no run can be alive, though Flower believes so for a minute; blocking."""
        for found in self.store.running():
            if found.flower_run is not None:
                with contextlib.suppress(FedaigcError):
                    self.flower.stop_run(found.flower_run)
                self.store.change(found.id, flower_run=None, attempt=found.attempt + 1)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            self._wake.clear()
            try:
                for found in await to_thread.run_sync(self.store.running):
                    await to_thread.run_sync(self.look, found)
            except FedaigcError as error:
                log.warning("event=watch_failed code=%s", error.code)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), LOOK_EVERY_S)

    def look(self, found: Round) -> None:
        """One look at one running round; blocking."""
        if self.clock.seconds() > found.deadline + CLOSE_GRACE_S:
            if found.flower_run is not None:
                with contextlib.suppress(FedaigcError):
                    self.flower.stop_run(found.flower_run)
            self.rounds.close(found.id)
        elif found.flower_run is None:
            self._submit(found, max(1, found.attempt))
        elif self.flower.run_state(found.flower_run) != RUNNING:
            # The run may have closed the round between our two looks.
            if self.store.round(found.id).ended:
                return
            log.warning("event=attempt_died round=%s attempt=%d", found.id, found.attempt)
            if found.attempt < self.attempts:
                self._submit(found, found.attempt + 1)
            else:
                self.rounds.close(found.id)

    def _submit(self, found: Round, attempt: int) -> None:
        # The number goes to the disk before the run exists, so that an older run is refused from then on.
        self.store.change(found.id, attempt=attempt, flower_run=None)
        run = self.flower.start_run(found.id, attempt)
        self.store.change(found.id, flower_run=run)
        log.info("event=round_submitted round=%s attempt=%d run=%s", found.id, attempt, run)
