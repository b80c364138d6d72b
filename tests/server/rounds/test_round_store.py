from __future__ import annotations

import pytest

from fedaigc.identifiers import NodeId, RoundId
from fedaigc_server.rounds.round_store import ACCEPTED, DECLINED, REFUSED, RoundUpdate, round_json
from tests.server.conftest import NOW, Site

ROUND = RoundId("r-0123456789abcdef")
NODE = NodeId("n-0123456789abcdef")


@pytest.fixture(autouse=True)
def _round(site: Site) -> None:
    site.stores.rounds.create(ROUND, 2, NOW, NOW + 60)


def _verdict(verdict: str) -> RoundUpdate:
    return RoundUpdate(NODE, verdict, "why", "digest", 0.25)


@pytest.mark.parametrize(("first", "second", "kept"), [
    (ACCEPTED, REFUSED, ACCEPTED),
    (REFUSED, ACCEPTED, REFUSED),
    (DECLINED, ACCEPTED, ACCEPTED),
    (ACCEPTED, DECLINED, ACCEPTED),
])  # fmt: skip
def test_a_verdict_stays_unless_it_was_a_decline(site: Site, first: str, second: str, kept: str) -> None:
    for verdict in (first, second):
        site.stores.rounds.keep_update(ROUND, _verdict(verdict), NOW)
    assert [update.verdict for update in site.stores.rounds.updates(ROUND)] == [kept]


def test_an_ended_round_cannot_be_changed(site: Site) -> None:
    site.stores.rounds.change(ROUND, state="failed", reason="first")
    site.stores.rounds.change(ROUND, state="released", reason="second")
    found = site.stores.rounds.round(ROUND)
    assert (found.state, found.reason, found.ended) == ("failed", "first", True)


def test_the_plan_is_stored_once(site: Site) -> None:
    site.stores.rounds.keep_plan(ROUND, b"one", [NODE])
    site.stores.rounds.keep_plan(ROUND, b"two", [])
    found = site.stores.rounds.round(ROUND)
    assert (found.plan, found.invited, found.state) == (b"one", (NODE,), "training")


def test_what_a_node_spent_is_remembered_over_rounds(site: Site) -> None:
    assert site.stores.rounds.spent(NODE) == 0.0
    site.stores.rounds.keep_update(ROUND, _verdict(ACCEPTED), NOW)
    assert site.stores.rounds.spent(NODE) == 0.25


@pytest.mark.parametrize(("verdict", "plans"), [(ACCEPTED, [b"plan"]), (REFUSED, []), (DECLINED, [])])
def test_the_plans_that_a_node_was_admitted_under_stay_known_however_the_round_ended(
    site: Site, verdict: str, plans: list[bytes]
) -> None:
    site.stores.rounds.keep_plan(ROUND, b"plan", [NODE])
    site.stores.rounds.keep_update(ROUND, _verdict(verdict), NOW)
    site.stores.rounds.change(ROUND, state="failed", reason="too few")
    assert site.stores.rounds.admitted_plans(NODE) == plans
    assert site.stores.rounds.admitted_plans(NodeId("n-1111111111111111")) == []


def test_the_json_form_has_no_bytes_and_no_flower_id(site: Site) -> None:
    site.stores.rounds.keep_plan(ROUND, b"plan", [NODE])
    shown = round_json(site.stores.rounds.round(ROUND), site.stores.rounds.updates(ROUND))
    assert shown["round"] == ROUND
    assert shown["invited"] == [NODE]
    assert "plan" not in shown
    assert "flower_run" not in shown
