"""Send the outbox to the ledger in batches, check every receipt, keep it; being offline loses nothing."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fedaigc.canonical import Json
from fedaigc.errors import FedaigcError, IdentityError, LedgerError, VerificationFailed
from fedaigc.fields import fields_of
from fedaigc.fingerprint import query_tag
from fedaigc.receipt import MAX_RECEIPT_BYTES
from fedaigc.signing import b64
from fedaigc_edge.evidence.outbox import Outbox
from fedaigc_edge.evidence.receipt_check import CheckedReceipt, PendingEntry, check_delivered

log = logging.getLogger(__name__)

BATCH_PATH = "/v1/ledger/batches"
TAG_KEYS_PATH = "/v1/node/tag-keys"
MAX_BATCH = 256
MAX_BATCH_BYTES = 900_000
"""Below the server's limit of 1 MiB a batch, with room for the JSON around it."""
MAX_MONTHS_ASKED = 3

REFUSED_NEXT = "run fedaigc-edge leave --erase --force, then join with a new token"
"""For a ledger that does not say itself what to do."""

FLUSH_S = 2.0
"""Batches leave this often, however many answers there were: the times say little about the callers."""
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0


class BatchRefused(LedgerError):
    """The ledger refused a batch, and will refuse it for ever: a number in it has another entry there."""


class LedgerServer(Protocol):
    """The node-signed connection to the server; raises FedaigcError."""

    async def post(self, path: str, body: dict[str, Json]) -> dict[str, Any]:
        """Send a JSON object, return the answered one."""
        ...


class MonthKeys(Protocol):
    """The month's tag keys."""

    def key(self, month: str) -> bytes:
        """The 32-byte key of `YYYY-MM`; raises IdentityError when it is not here."""
        ...

    def keep(self, sealed: Mapping[str, Json]) -> None:
        """Check and keep what the server sent; raises VerificationFailed."""
        ...


@dataclass(frozen=True)
class DeliveryStatus:
    """Where delivery stands, for `fedaigc-edge status`."""

    sealed: int
    pending: int
    delivered_since_start: int
    error: FedaigcError | None
    """Why the last attempt failed; it is tried again."""
    alarm: FedaigcError | None
    """Why delivery stopped: a receipt did not check, or the ledger will never take what is next in the queue.

    It stays stopped until the device is started again.
    """

    def as_json(self) -> dict[str, Json]:
        """The status as `--json` prints it."""
        return {
            "sealed": self.sealed,
            "pending": self.pending,
            "delivered_since_start": self.delivered_since_start,
            "error": self.error.as_json() if self.error else None,
            "alarm": self.alarm.as_json() if self.alarm else None,
        }


class Delivery:
    """Deliver one node's outbox.

    Args:
        outbox, server, keys: where entries come from, go to, and what their tags are made with.
        log_vkey: the log's public key from the enrolment; receipts are checked against it alone.
        flush_s: seconds between batches.
        jitter: uniform in [0, 1).
        sleep: waits a number of seconds.
        on_refused: told once when the ledger refuses a batch for good, so that nothing more is sealed.
    """

    def __init__(
        self,
        outbox: Outbox,
        server: LedgerServer,
        keys: MonthKeys,
        log_vkey: str,
        flush_s: float = FLUSH_S,
        jitter: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._outbox = outbox
        self._server = server
        self._keys = keys
        self._log_vkey = log_vkey
        self._flush_s = flush_s
        self._jitter = jitter
        self._sleep = sleep
        self._on_refused = on_refused
        self._delivered = 0
        self._error: FedaigcError | None = None
        self._alarm: FedaigcError | None = None

    @property
    def refused(self) -> BatchRefused | None:
        """Why the ledger takes nothing from this device any more: what is sealed now could not be proven."""
        return self._alarm if isinstance(self._alarm, BatchRefused) else None

    async def run(self) -> None:
        """Deliver until cancelled; returns only with an `alarm`, which trying again would not mend."""
        backoff = FIRST_BACKOFF_S
        while True:
            wait = self._flush_s
            try:
                while await self.deliver_batch() == MAX_BATCH:
                    pass
                backoff = FIRST_BACKOFF_S
            except FedaigcError as error:
                if self._alarm is not None:
                    return
                log.warning("delivery=failed code=%s retry_s=%.0f", error.code, backoff)
                wait = max(backoff, self._flush_s)
                backoff = min(backoff * 2, LONGEST_BACKOFF_S)
            await self._sleep(wait * (0.75 + self._jitter() / 2))

    async def deliver_batch(self) -> int:
        """Send one batch and keep its receipts; returns how many entries left the queue.

        Raises what the connection raises (nothing was accepted, so trying again is safe), VerificationFailed
        when a receipt does not check, and BatchRefused when a number was used twice: `alarm` is then set.
        """
        try:
            delivered = await self._deliver_batch()
        except FedaigcError as error:
            self._error = error
            raise
        self._error = None
        self._delivered += delivered
        if delivered:
            log.info("delivery=done entries=%d", delivered)
        return delivered

    async def status(self) -> DeliveryStatus:
        """Counts from disk, and the last error or the alarm."""
        counts = await asyncio.to_thread(self._outbox.counts)
        return DeliveryStatus(counts.sealed, counts.pending, self._delivered, self._error, self._alarm)

    async def _deliver_batch(self) -> int:
        pending = await asyncio.to_thread(self._outbox.pending, MAX_BATCH, MAX_BATCH_BYTES)
        if not pending:
            return 0
        await self._fetch_keys(pending)
        pending = self._taggable(pending)
        answer = await self._sent([self._item(entry) for entry in pending])
        try:
            receipts = await asyncio.to_thread(self._checked, pending, answer)
        except VerificationFailed as error:
            self._alarm = error
            log.error("delivery=stopped alarm=%s", error)
            raise
        if not receipts:
            raise LedgerError("The ledger answered without a receipt", "", "it is tried again")
        return await asyncio.wrap_future(self._outbox.acknowledge(receipts))

    async def _sent(self, items: list[Json]) -> Mapping[str, Any]:
        try:
            return await self._server.post(BATCH_PATH, {"items": items})
        except LedgerError as error:
            # Said by the ledger itself, not by the way to it.
            self._alarm = BatchRefused(error.what, error.why, error.do_next or REFUSED_NEXT)
            log.error("delivery=stopped alarm=%s", self._alarm)
            self._on_refused()
            raise self._alarm from error

    async def _fetch_keys(self, pending: list[PendingEntry]) -> None:
        months = sorted({entry.month for entry in pending})
        missing = [month for month in months if not self._has(month)]
        if missing:
            answer = await self._server.post(TAG_KEYS_PATH, {"months": missing[:MAX_MONTHS_ASKED]})
            keys = answer.get("tag_keys")
            self._keys.keep(keys if isinstance(keys, dict) else {})

    def _taggable(self, pending: list[PendingEntry]) -> list[PendingEntry]:
        # The first entry always stays: if its key is still missing, making its tags says so.
        ready = itertools.takewhile(lambda entry: self._has(entry.month), pending)
        return list(ready) or pending[:1]

    def _has(self, month: str) -> bool:
        try:
            self._keys.key(month)
        except IdentityError:
            return False
        return True

    def _item(self, entry: PendingEntry) -> dict[str, Json]:
        key = self._keys.key(entry.month)
        tags = dict.fromkeys(query_tag(key, digest) for digest in (entry.raw, entry.canonical))
        return {
            "seq": entry.seq,
            "entry": b64(entry.entry),
            "tags": [b64(tag) for tag in tags],
            "month": entry.month,
            "opening": b64(entry.opening),
        }

    def _checked(self, pending: list[PendingEntry], answer: Mapping[str, Any]) -> list[CheckedReceipt]:
        sent = {entry.seq: entry for entry in pending}
        seen = self._outbox.seen_checkpoint()
        receipts: list[CheckedReceipt] = []
        for item in fields_of(answer, "the ledger's answer").listed("receipts", len(pending)):
            fields = fields_of(item, "the ledger's receipt")
            seq, index = fields.integer("seq"), fields.integer("index")
            if seq not in sent:
                raise VerificationFailed(
                    "The ledger answered for another output", f"output {seq}", "tell the compliance officer"
                )
            text = fields.text("receipt", MAX_RECEIPT_BYTES)
            receipt = check_delivered(sent.pop(seq), index, text, self._log_vkey, seen)
            seen = receipt.checkpoint if seen is None or receipt.checkpoint.size > seen.size else seen
            receipts.append(receipt)
        return receipts
