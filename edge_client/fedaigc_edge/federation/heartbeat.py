"""Tell the server that the device lives, and hear from it whether it still may and which policy is newest."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from fedaigc.canonical import Json
from fedaigc.errors import FedaigcError, Unavailable, VerificationFailed
from fedaigc_edge.federation.server_connection import ServerConnection

PATH = "/v1/node/heartbeat"
LONGEST_WAIT_S = 300.0
LOOK_S = 3.0
"""How long somebody who asks for the status waits for a server that did not answer before."""
JITTER = 0.2
"""Devices that start together must not call together for ever."""

log = logging.getLogger("fedaigc.edge.heartbeat")


@dataclass(frozen=True)
class Contact:
    """What the last attempt found: reachable or not, what was wrong, and the newest policy's number there."""

    reachable: bool = False
    problem: str = ""
    policy: int = 0


class Heartbeat:
    """One loop. `report` gives the body; `on_contact` hears each answer before the next wait."""

    def __init__(
        self,
        server: ServerConnection,
        report: Callable[[], dict[str, Json]],
        on_contact: Callable[[Contact], None],
        every_s: float,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._server = server
        self._report = report
        self._on_contact = on_contact
        self._every_s = every_s
        self._jitter = jitter
        self.last = Contact()

    async def run(self) -> None:
        """Beat until cancelled; failures lengthen the wait up to five minutes, a success resets it."""
        wait_s = self._every_s
        while True:
            self.last = await self.beat()
            wait_s = min(wait_s * 2, LONGEST_WAIT_S) if self.last.problem else self._every_s
            await asyncio.sleep(wait_s * (1 + JITTER * (2 * self._jitter() - 1)))

    async def look(self) -> Contact:
        """The last contact; a failed one is tried again first, for it may be five minutes old."""
        if self.last.problem:
            with contextlib.suppress(TimeoutError):
                self.last = await asyncio.wait_for(self.beat(), LOOK_S)
        return self.last

    async def beat(self) -> Contact:
        """One call; never raises what the server or the network did."""
        try:
            answer = await self._server.post(PATH, self._report())
            contact = Contact(True, "", int(answer.get("policy", 0)))
        except (Unavailable, VerificationFailed) as error:
            log.info("server_unreachable code=%s why=%r", error.code, error.why)
            return Contact(False, str(error))
        except FedaigcError as error:
            log.warning("heartbeat_refused code=%s", error.code)
            return Contact(True, str(error))
        except (TypeError, ValueError):
            log.warning("heartbeat_refused code=malformed")
            return Contact(True, "the server's answer is malformed")
        self._on_contact(contact)
        return contact
