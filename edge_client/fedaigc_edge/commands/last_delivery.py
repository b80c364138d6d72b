"""Before a device leaves: hand over what it owes the ledger, or say why that does not work and what helps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import click

from fedaigc.errors import FedaigcError, Unavailable
from fedaigc_edge.commands.daemon_call import ask_daemon
from fedaigc_edge.enrolment import is_damaged
from fedaigc_edge.owed_delivery import deliver_owed
from fedaigc_edge.standing import StandingRecord, State
from fedaigc_edge.status import undelivered, undelivered_former

WAIT_S = 30.0
LOOK_EVERY_S = 0.5


def deliver_by_daemon(
    folder: Path,
    erase: bool,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until the running daemon has delivered; False when none runs.

    Raises Unavailable when it does not come to an end in time for a reason that the daemon names; a device
    that is merely busy is left to `deliver_here`, after its stop.
    """
    until, told = now() + WAIT_S, False
    while True:
        try:
            found = ask_daemon(folder, "GET", "/status/full")
        except Unavailable:
            return False
        if found["outbox"] == 0 or found["standing"] != State.ACTIVE:
            return True
        if not told:
            _tell(found["outbox"])
            told = True
        problem = str(found["delivery_problem"] or found["problem"])
        if now() > until:
            if problem:
                raise _undelivered(folder, int(found["outbox"]), problem, erase)
            return True
        sleep(LOOK_EVERY_S)


def deliver_here(folder: Path, erase: bool) -> None:
    """Deliver without a daemon; call it while holding the folder's lock.

    What no server takes any more does not keep a device from leaving, only from being erased. Raises
    Unavailable when something is left that could be delivered, or that would be erased.
    """
    problem = "its server no longer takes them from this node"
    if undelivered(folder) and not is_damaged(folder) and _may_deliver(folder):
        _tell(undelivered(folder))
        problem = _try(folder)
        if problem:
            raise _undelivered(folder, undelivered(folder), problem, erase)
    left = undelivered(folder) + undelivered_former(folder)
    if left and erase:
        raise _undelivered(folder, left, problem or "they are of former nodes of this folder", erase)
    if undelivered(folder):
        click.echo(f"{_fingerprints(left)} undelivered, kept in {folder}: {problem}.", err=True)


def _try(folder: Path) -> str:
    """Deliver for a bounded time; empty when all went, else what kept it."""

    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await deliver_owed(folder)

    try:
        asyncio.run(bounded())
    except FedaigcError as error:
        return f"{error.what}: {error.why}" if error.why else error.what
    except TimeoutError:
        return f"{WAIT_S:.0f} seconds were not enough"
    return ""


def _may_deliver(folder: Path) -> bool:
    return StandingRecord(folder).current.state is not State.REVOKED


def _tell(count: int) -> None:
    click.echo(f"Delivering {_fingerprints(count)} to the ledger, for at most {WAIT_S:.0f} seconds", err=True)


def _fingerprints(count: int) -> str:
    return "1 fingerprint" if count == 1 else f"{count} fingerprints"


def _undelivered(folder: Path, count: int, why: str, erase: bool) -> Unavailable:
    lost = (
        "which deletes them: nobody could prove any more what they were for"
        if erase
        else "then they stay in the folder, and are delivered when a device runs there again"
    )
    return Unavailable(
        f"{_fingerprints(count)} not delivered yet, so the device in {folder} did not leave",
        why,
        f"run the same command again when the server can be reached; or add --force, {lost}",
    )
