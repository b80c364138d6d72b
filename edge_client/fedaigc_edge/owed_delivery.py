"""Deliver what a node still owes the ledger while no daemon of its own runs: before it leaves, and after."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from fedaigc.errors import Busy, FedaigcError, LedgerError, Unavailable
from fedaigc_edge.enrolment import CA_FILE, Enrolment
from fedaigc_edge.evidence.delivery import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, BatchRefused, Delivery
from fedaigc_edge.evidence.outbox import Outbox
from fedaigc_edge.federation.server_connection import ServerConnection
from fedaigc_edge.federation.tag_keys import TagKeys
from fedaigc_edge.former_node import former_nodes
from fedaigc_edge.identity import Identity
from fedaigc_edge.status import EVIDENCE_FILE, undelivered

PASSING = (Unavailable, Busy, LedgerError)
"""What trying again may mend; all else needs a person."""

log = logging.getLogger(__name__)


async def deliver_owed(folder: Path) -> int:
    """Deliver the outbox of the node in `folder` to its end; how many entries that were.

    Call it while holding the data folder's lock. Raises what stops it; what was delivered by then is kept.
    """
    if not undelivered(folder):
        return 0
    enrolment, identity = Enrolment.load(folder), Identity.load(folder / "keys")
    tag_keys = TagKeys(folder, identity.sealing)
    server = ServerConnection(enrolment.address, folder / CA_FILE, enrolment.node, identity.signing)
    delivered = 0
    try:
        outbox = await asyncio.to_thread(Outbox, folder / EVIDENCE_FILE, enrolment.node, enrolment.tenant_key)
        try:
            delivery = Delivery(outbox, server, tag_keys, enrolment.log_vkey)
            while outbox.counts().pending:
                delivered += await delivery.deliver_batch()
        finally:
            await asyncio.to_thread(outbox.close)
    finally:
        await server.close()
    return delivered


async def deliver_former(
    data: Path,
    jitter: Callable[[], float] = random.random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Deliver what the former nodes of this folder owe, under their own names and keys; returns when done.

    A server that cannot be reached is tried again; a node that it refuses is left as it is, evidence and all.
    """
    hopeless: set[Path] = set()
    backoff = FIRST_BACKOFF_S
    while waiting := [node for node in former_nodes(data) if node not in hopeless and undelivered(node)]:
        for node in waiting:
            try:
                count = await deliver_owed(node)
                log.info("former_delivered node=%s entries=%d", node.name, count)
            except FedaigcError as error:
                passing = isinstance(error, PASSING) and not isinstance(error, BatchRefused)
                if not passing:
                    hopeless.add(node)
                word = "failed" if passing else "stopped"
                log.warning("former_delivery=%s node=%s code=%s", word, node.name, error.code)
        await sleep(backoff * (0.75 + jitter() / 2))
        backoff = min(backoff * 2, LONGEST_BACKOFF_S)
