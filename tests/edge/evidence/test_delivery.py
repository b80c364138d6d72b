"""Delivery sends everything once, believes nothing unproven, and never gives up on being offline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedaigc.errors import IdentityError, LedgerError, NotAuthorised, Unavailable, VerificationFailed
from fedaigc.fingerprint import fingerprint_text, query_tag
from fedaigc.signing import unb64
from fedaigc_edge.evidence.delivery import LONGEST_BACKOFF_S, MAX_BATCH, Delivery
from fedaigc_edge.evidence.outbox import Outbox
from tests.edge.evidence.small_ledger import MONTH_KEY, NODE, TENANT, Keys, SmallLedger, output

NOVEMBER, DECEMBER = 1_796_000_000.0, 1_798_000_000.0


class Clock:
    """Unix seconds that a test moves."""

    def __init__(self) -> None:
        self.time = NOVEMBER

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outbox(tmp_path: Path, clock: Clock) -> Iterator[Outbox]:
    box = Outbox(tmp_path / "evidence.db", NODE, TENANT.public, now=clock)
    yield box
    box.close()


@pytest.fixture
def ledger() -> SmallLedger:
    return SmallLedger()


def delivery(outbox: Outbox, ledger: SmallLedger, keys: Keys | None = None) -> Delivery:
    return Delivery(outbox, ledger, keys or Keys("2026-11"), ledger.signer.vkey(), jitter=lambda: 0.5)


def seal(outbox: Outbox, *numbers: int) -> None:
    for future in [outbox.seal(output(number)) for number in numbers]:
        future.result(10)


def test_everything_is_delivered_and_every_receipt_kept(outbox: Outbox, ledger: SmallLedger) -> None:
    seal(outbox, *range(MAX_BATCH + 10))
    sender = delivery(outbox, ledger)
    assert asyncio.run(sender.deliver_batch()) == MAX_BATCH
    assert asyncio.run(sender.deliver_batch()) == 10
    assert asyncio.run(sender.deliver_batch()) == 0
    assert [len(batch) for batch in ledger.batches] == [MAX_BATCH, 10]
    for number in range(MAX_BATCH + 10):
        known = outbox.receipt_of(output(number).request)
        assert known is not None
        assert known.text is not None
    status = asyncio.run(sender.status())
    assert (status.sealed, status.pending, status.delivered_since_start) == (266, 0, 266)
    assert status.as_json()["error"] is None


def test_tags_are_the_months_and_no_plain_hash_is_sent(outbox: Outbox, ledger: SmallLedger) -> None:
    outbox.seal(output(1, "two  spaces")).result(5)
    asyncio.run(delivery(outbox, ledger).deliver_batch())
    (item,) = ledger.batches[0]
    fingerprint = fingerprint_text("two  spaces")
    assert set(item) == {"seq", "entry", "tags", "month", "opening"}
    assert [unb64(tag) for tag in item["tags"]] == [
        query_tag(MONTH_KEY, fingerprint.raw),
        query_tag(MONTH_KEY, fingerprint.canonical),
    ]
    assert item["month"] == "2026-11"


def test_a_lost_answer_is_sent_again_and_counted_once(outbox: Outbox, ledger: SmallLedger) -> None:
    seal(outbox, 1, 2)
    sender = delivery(outbox, ledger)
    honest = ledger.post

    async def lose(path: str, body: dict[str, object]) -> dict[str, object]:
        await honest(path, body)
        raise Unavailable("The connection broke after the server had written")

    ledger.post = lose  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        asyncio.run(sender.deliver_batch())
    assert asyncio.run(sender.status()).pending == 2
    ledger.post = honest  # type: ignore[method-assign]
    assert asyncio.run(sender.deliver_batch()) == 2
    assert len(ledger.tree.entries) == 2
    assert ledger.batches[0] == ledger.batches[1]


def test_keys_of_a_missed_month_are_fetched_when_online(
    outbox: Outbox, ledger: SmallLedger, clock: Clock
) -> None:
    seal(outbox, 1)
    clock.time = DECEMBER
    seal(outbox, 2)
    assert asyncio.run(delivery(outbox, ledger).deliver_batch()) == 2
    assert ledger.months_asked == ["2026-12"]
    assert [item["month"] for item in ledger.batches[0]] == ["2026-11", "2026-12"]


def test_a_month_without_a_key_waits_and_holds_up_only_what_follows(
    outbox: Outbox, ledger: SmallLedger, clock: Clock
) -> None:
    seal(outbox, 1)
    clock.time = DECEMBER
    seal(outbox, 2)
    keys = Keys("2026-11")
    keys.keep = lambda sealed: None  # type: ignore[method-assign]
    sender = delivery(outbox, ledger, keys)
    assert asyncio.run(sender.deliver_batch()) == 1
    with pytest.raises(IdentityError):
        asyncio.run(sender.deliver_batch())
    assert asyncio.run(sender.status()).alarm is None


def misbehave_foreign_log(ledger: SmallLedger) -> None:
    ledger.prove_with = SmallLedger()
    ledger.prove_with.tree = ledger.tree


def misbehave_index(ledger: SmallLedger) -> None:
    ledger.answer_with_index_shifted_by = 1


def misbehave_swapped(ledger: SmallLedger) -> None:
    ledger.answer_for = {1: 2, 2: 1}


@pytest.mark.parametrize("misbehave", [misbehave_foreign_log, misbehave_index, misbehave_swapped])
def test_a_receipt_that_does_not_check_stops_delivery_with_an_alarm(
    outbox: Outbox, ledger: SmallLedger, misbehave: object
) -> None:
    seal(outbox, 1, 2)
    misbehave(ledger)  # type: ignore[operator]
    sender = delivery(outbox, ledger)
    asyncio.run(asyncio.wait_for(sender.run(), 10))
    status = asyncio.run(sender.status())
    assert status.pending == 2
    assert isinstance(status.alarm, VerificationFailed)
    known = outbox.receipt_of(output(1).request)
    assert known is not None
    assert known.text is None
    assert len(ledger.batches) == 1


def test_a_number_that_was_used_twice_stops_delivery_with_an_alarm_instead_of_trying_for_ever(
    outbox: Outbox, ledger: SmallLedger
) -> None:
    told: list[str] = []
    seal(outbox, 1, 2)
    ledger.failures = [LedgerError("Node n used the number 1 twice", "another entry", "")]
    sender = Delivery(
        outbox, ledger, Keys("2026-11"), ledger.signer.vkey(), on_refused=lambda: told.append("refused")
    )
    asyncio.run(asyncio.wait_for(sender.run(), 10))
    status = asyncio.run(sender.status())
    assert (status.pending, told) == (2, ["refused"])
    assert sender.refused is not None
    assert status.alarm is sender.refused
    assert "fedaigc-edge leave" in sender.refused.do_next


def test_a_receipt_that_does_not_check_is_no_refusal_by_the_ledger(
    outbox: Outbox, ledger: SmallLedger
) -> None:
    seal(outbox, 1)
    misbehave_index(ledger)
    sender = delivery(outbox, ledger)
    asyncio.run(asyncio.wait_for(sender.run(), 10))
    assert sender.refused is None


def test_a_log_that_forks_is_noticed_even_after_a_restart(outbox: Outbox, ledger: SmallLedger) -> None:
    seal(outbox, 1)
    asyncio.run(delivery(outbox, ledger).deliver_batch())
    fork = SmallLedger()
    fork.signer = ledger.signer
    seal(outbox, 2)
    with pytest.raises(VerificationFailed, match="two different trees"):
        asyncio.run(delivery(outbox, fork).deliver_batch())


def test_an_answer_without_receipts_is_an_error_that_is_tried_again(
    outbox: Outbox, ledger: SmallLedger
) -> None:
    async def empty(path: str, body: dict[str, object]) -> dict[str, object]:
        return {"receipts": []}

    seal(outbox, 1)
    ledger.post = empty  # type: ignore[method-assign]
    with pytest.raises(LedgerError):
        asyncio.run(delivery(outbox, ledger).deliver_batch())


def test_retries_back_off_within_bounds_and_recover(outbox: Outbox, ledger: SmallLedger) -> None:
    seal(outbox, 1)
    ledger.failures = [Unavailable("off")] * 9 + [NotAuthorised("revoked")]
    waits: list[float] = []

    class Enough(Exception):
        pass

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if not ledger.failures and not outbox.pending(1, 1):
            raise Enough

    sender = Delivery(
        outbox, ledger, Keys("2026-11"), ledger.signer.vkey(), flush_s=0.5, jitter=lambda: 0.5, sleep=sleep
    )
    with pytest.raises(Enough):
        asyncio.run(sender.run())
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 0.5]
    assert max(waits) <= LONGEST_BACKOFF_S * 1.25


def test_the_last_error_shows_until_it_is_over(outbox: Outbox, ledger: SmallLedger) -> None:
    seal(outbox, 1)
    ledger.failures = [Unavailable("The server cannot be reached")]
    sender = delivery(outbox, ledger)
    with pytest.raises(Unavailable):
        asyncio.run(sender.deliver_batch())
    shown = asyncio.run(sender.status()).as_json()
    assert shown["error"]["what"] == "The server cannot be reached"
    assert shown["alarm"] is None
    asyncio.run(sender.deliver_batch())
    assert asyncio.run(sender.status()).error is None
