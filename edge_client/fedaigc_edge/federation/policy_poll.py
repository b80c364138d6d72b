"""Ask for the newest policy from time to time, and at once when the heartbeat heard of one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import Protocol

from fedaigc.errors import FedaigcError, Unavailable
from fedaigc_edge.federation.server_connection import ServerConnection

JITTER = 0.2
"""Devices that learn of a policy together must not fetch it together for ever."""

log = logging.getLogger("fedaigc.edge.policy")


class Change(Protocol):
    """A policy that came into force."""

    @property
    def version(self) -> int:
        """Its number."""
        ...

    @property
    def milliseconds(self) -> float:
        """How long the swap took until new requests used it."""
        ...


class Receiver(Protocol):
    """What verifies a policy and puts it in force."""

    async def check_for_policy(self, server: ServerConnection) -> Change | None:
        """The change, or None when the newest is in force; raises FedaigcError."""
        ...


class PolicyPoll:
    """One loop. `allowed` says whether the device may ask at all; failures are logged and tried again."""

    def __init__(
        self,
        receiver: Receiver,
        server: ServerConnection,
        every_s: float,
        allowed: Callable[[], bool],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._receiver = receiver
        self._server = server
        self._every_s = every_s
        self._allowed = allowed
        self._jitter = jitter
        self._woken = asyncio.Event()
        self._asking = asyncio.Lock()
        self.last_change: Change | None = None
        """The last swap since the start."""

    def wake(self) -> None:
        """Ask now instead of after the wait."""
        self._woken.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            if self._allowed():
                await self.ask()
            with contextlib.suppress(TimeoutError):
                wait_s = self._every_s * (1 + JITTER * (2 * self._jitter() - 1))
                await asyncio.wait_for(self._woken.wait(), wait_s)
            self._woken.clear()

    async def ask(self) -> Change | None:
        """Ask once; returns the change, None when there was none or it failed."""
        try:
            async with self._asking:
                change = await self._receiver.check_for_policy(self._server)
        except Unavailable:
            return None
        except FedaigcError as error:
            # What does not check stays an alarm in the log until it does; the policy in force is untouched.
            log.error("policy_refused code=%s what=%r why=%r", error.code, error.what, error.why)
            return None
        if change is not None:
            self.last_change = change
            log.info("policy_in_force version=%d swap_ms=%.1f", change.version, change.milliseconds)
        return change
