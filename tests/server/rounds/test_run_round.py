from __future__ import annotations

import base64

import pytest

from fedaigc.errors import NotAuthorised, RequestInvalid, RoundFailed, StorageError
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.round_plan import RoundPlan
from fedaigc_server.rounds.round_store import FAILED, PLANNED, QUERYING, RELEASED, TRAINING
from tests.server.fake_device import FakeDevice
from tests.server.rounds.conftest import Learning


def _entries(learning: Learning, kind: str) -> list[LedgerEntry]:
    ledger = learning.site.stores.ledger
    found = [LedgerEntry.from_bytes(ledger.entry(index)) for index in range(ledger.size)]
    return [entry for entry in found if entry.kind == kind]


def _state(learning: Learning, round_id: str) -> str:
    return learning.site.stores.rounds.round(round_id).state


def test_a_round_goes_through_its_states_and_releases_a_policy(learning: Learning) -> None:
    round_id = learning.rounds.create(2, 600)
    assert _state(learning, round_id) == PLANNED
    learning.site.stores.rounds.change(round_id, attempt=1)
    begun = learning.rounds.begin(round_id, 1)
    assert _state(learning, round_id) == QUERYING
    assert set(begun["nodes"]) == {learning.flower_id(device) for device in learning.devices}
    planned = learning.rounds.statuses(round_id, 1, learning.statuses())
    assert _state(learning, round_id) == TRAINING
    assert set(planned["invited"]) == set(begun["nodes"])
    plan = base64.b64decode(planned["plan"])
    assert all(learning.send(round_id, device, device.update(plan)) for device in learning.devices)
    closed = learning.rounds.close(round_id, 1)
    assert closed == {"state": RELEASED, "reason": "", "policy": 1}
    latest = learning.site.stores.policies.latest()
    assert latest is not None
    assert (latest.round, latest.updates) == (round_id, 2)


def test_every_update_and_the_policy_are_in_the_ledger_once_whatever_is_repeated(learning: Learning) -> None:
    round_id, plan = learning.begin()
    for _ in range(2):
        for device in learning.devices:
            learning.send(round_id, device, device.update(plan))
    learning.rounds.close(round_id)
    learning.rounds.close(round_id)
    updates, (policy,) = _entries(learning, "update"), _entries(learning, "policy")
    assert {entry.node for entry in updates} == {device.node for device in learning.devices}
    assert len(updates) == 2
    assert all(entry.body["accepted"] for entry in updates)
    assert policy.body["version"] == 1
    assert policy.body["updates"] == 2


def test_single_updates_are_forgotten_when_the_round_has_ended(learning: Learning) -> None:
    round_id, plan = learning.begin()
    learning.send(round_id, learning.devices[0], learning.devices[0].update(plan))
    folder = learning.site.data / "updates" / round_id
    assert list(folder.iterdir())
    learning.rounds.close(round_id)
    assert not folder.exists()


def test_the_same_plan_is_given_again_and_only_to_those_who_still_owe(learning: Learning) -> None:
    round_id, plan = learning.begin()
    first, second = learning.devices
    learning.send(round_id, first, first.update(plan))
    again = learning.rounds.statuses(round_id, 1, {})
    assert base64.b64decode(again["plan"]) == plan
    assert again["invited"] == [learning.flower_id(second)]


def test_a_round_survives_a_restart_at_every_step(learning: Learning) -> None:
    round_id, plan = learning.begin()
    for device in learning.devices:
        learning.site.stores = learning.site.reopened().stores
        assert learning.rounds.statuses(round_id, 1, {})["plan"]
        assert learning.send(round_id, device, device.update(plan))
    learning.site.stores = learning.site.reopened().stores
    assert learning.rounds.close(round_id)["state"] == RELEASED


def test_an_attempt_that_was_given_up_changes_nothing(learning: Learning) -> None:
    round_id, plan = learning.begin()
    learning.site.stores.rounds.change(round_id, attempt=2)
    device = learning.devices[0]
    for step in (
        lambda: learning.rounds.begin(round_id, 1),
        lambda: learning.rounds.statuses(round_id, 1, {}),
        lambda: learning.send(round_id, device, device.update(plan), attempt=1),
        lambda: learning.rounds.close(round_id, 1),
    ):
        with pytest.raises(RoundFailed, match="Another attempt"):
            step()
    assert _state(learning, round_id) == TRAINING
    assert learning.send(round_id, device, device.update(plan), attempt=2)


def test_too_few_updates_fail_the_round_and_say_who_said_what(learning: Learning) -> None:
    round_id, plan = learning.begin()
    first, second = learning.devices
    learning.send(round_id, first, first.update(plan))
    learning.rounds.declined(round_id, 1, learning.flower_id(second), "privacy_budget")
    closed = learning.rounds.close(round_id)
    assert closed["state"] == FAILED
    assert "1 usable updates came and 2 are needed" in closed["reason"]
    assert f"{second.node}: privacy_budget" in closed["reason"]
    assert learning.site.stores.policies.latest() is None


def test_too_few_able_nodes_fail_the_round_at_once(learning: Learning) -> None:
    round_id = learning.rounds.create(3, 600)
    learning.site.stores.rounds.change(round_id, attempt=1)
    with pytest.raises(RoundFailed, match="2 nodes can take part and 3 are needed"):
        learning.rounds.statuses(round_id, 1, learning.statuses())
    assert _state(learning, round_id) == FAILED


def test_answers_that_cannot_be_read_are_named_as_such(learning: Learning) -> None:
    round_id = learning.rounds.create(1, 600)
    learning.site.stores.rounds.change(round_id, attempt=1)
    odd = {learning.flower_id(learning.devices[0]): "e30=", "77": learning.statuses().popitem()[1]}
    with pytest.raises(RoundFailed, match="None of 2 answers could be used"):
        learning.rounds.statuses(round_id, 1, odd)


def test_a_node_cannot_answer_for_another(learning: Learning) -> None:
    round_id = learning.rounds.create(1, 600)
    learning.site.stores.rounds.change(round_id, attempt=1)
    first, second = learning.devices
    swapped = {learning.flower_id(first): base64.b64encode(second.status()).decode()}
    with pytest.raises(RoundFailed):
        learning.rounds.statuses(round_id, 1, swapped)


def test_an_update_that_does_not_check_is_refused_and_recorded(learning: Learning) -> None:
    round_id, plan = learning.begin()
    first, second = learning.devices
    forged = second.update_for(RoundPlan.open(plan, first.release_public)).signed(second.signing)
    answer = learning.rounds.update(round_id, 1, learning.flower_id(first), forged)
    assert not answer["accepted"]
    assert answer["reason"]
    (entry,) = _entries(learning, "update")
    assert (entry.node, entry.body["accepted"]) == (first.node, False)
    assert entry.body["fingerprint_root"] == "", "nothing unverified is repeated"
    assert not learning.send(round_id, first, first.update(plan)), "the first verdict stays"


def test_an_account_that_shrank_is_refused(learning: Learning) -> None:
    round_id, plan = learning.begin()
    for device in learning.devices:
        learning.send(round_id, device, device.update(plan))
    learning.rounds.close(round_id)
    for device in learning.devices:
        device.policy = 1
    second, plan = learning.begin()
    device = learning.devices[0]
    opened = RoundPlan.open(plan, device.release_public)
    spent = learning.site.stores.rounds.spent(device.node)
    lower = device.update_for(opened, epsilon_spent=spent - 0.01).signed(device.signing)
    answer = learning.rounds.update(second, 1, learning.flower_id(device), lower)
    assert not answer["accepted"]
    assert "account" in answer["reason"]


def test_a_device_that_forgot_its_account_is_found_out_in_the_next_round(learning: Learning) -> None:
    round_id, plan = learning.begin()
    for device in learning.devices:
        assert learning.send(round_id, device, device.update(plan))
    learning.rounds.close(round_id)
    for device in learning.devices:
        device.policy = 1
    second, plan = learning.begin()
    device = learning.devices[0]
    opened = RoundPlan.open(plan, device.release_public)
    spent = learning.site.stores.rounds.spent(device.node)
    forgot = device.update_for(opened, epsilon_spent=spent).signed(device.signing)
    answer = learning.rounds.update(second, 1, learning.flower_id(device), forgot)
    assert not answer["accepted"]
    assert "lower than it can be" in answer["reason"]


def test_only_invited_nodes_in_good_standing_are_heard(learning: Learning) -> None:
    round_id, plan = learning.begin()
    late = learning.site.enrolled("late")
    revoked = learning.devices[0]
    learning.site.stores.registry.revoke(revoked.node, "lost", 1)
    for device in (late, revoked):
        with pytest.raises(NotAuthorised, match="not invited"):
            learning.send(round_id, device, device.update(plan))
    with pytest.raises(NotAuthorised):
        learning.rounds.update(round_id, 1, "12345", b"")


def test_a_node_that_declined_may_still_send(learning: Learning) -> None:
    round_id, plan = learning.begin()
    device = learning.devices[0]
    learning.rounds.declined(round_id, 1, learning.flower_id(device), "busy")
    assert learning.flower_id(device) in learning.rounds.statuses(round_id, 1, {})["invited"]
    assert learning.send(round_id, device, device.update(plan))


def test_what_a_node_sent_before_it_was_revoked_is_not_averaged(learning: Learning) -> None:
    round_id, plan = learning.begin()
    for device in learning.devices:
        learning.send(round_id, device, device.update(plan))
    learning.site.stores.registry.revoke(learning.devices[0].node, "stolen", 1)
    closed = learning.rounds.close(round_id)
    assert closed["state"] == FAILED
    assert "1 usable updates came and 2 are needed" in closed["reason"]


def test_a_full_disk_is_no_verdict_on_a_round(learning: Learning, monkeypatch: pytest.MonkeyPatch) -> None:
    round_id, plan = learning.begin()
    for device in learning.devices:
        learning.send(round_id, device, device.update(plan))
    versions = learning.site.stores.policies

    def full(*_: object) -> bytes:
        raise StorageError("Cannot write", "the disk is full", "free some space")

    with monkeypatch.context() as patch:
        patch.setattr(type(versions), "release", full)
        with pytest.raises(StorageError):
            learning.rounds.close(round_id)
    assert learning.rounds.close(round_id)["state"] == RELEASED


def test_one_round_at_a_time(learning: Learning) -> None:
    round_id, _ = learning.begin()
    with pytest.raises(RoundFailed, match=f"running already.*{round_id}"):
        learning.rounds.create(1, 60)
    learning.rounds.fail(round_id, "test")
    learning.rounds.create(1, 60)


def test_an_ended_round_takes_nothing_more(learning: Learning) -> None:
    round_id, plan = learning.begin()
    learning.rounds.fail(round_id, "the operator ended it")
    device = learning.devices[0]
    with pytest.raises(RoundFailed, match="has ended"):
        learning.send(round_id, device, device.update(plan))
    assert learning.rounds.close(round_id)["reason"] == "the operator ended it"


def test_an_unknown_round_is_told(learning: Learning) -> None:
    with pytest.raises(RequestInvalid, match="no such round"):
        learning.rounds.close("r-0123456789abcdef")


def test_the_second_policy_builds_on_the_first(learning: Learning) -> None:
    for version in (1, 2):
        round_id, plan = learning.begin()
        for device in learning.devices:
            assert learning.send(round_id, device, device.update(plan))
        assert learning.rounds.close(round_id)["policy"] == version
        for device in learning.devices:
            device.policy = version
    stores = learning.site.stores
    first, second = stores.policies.manifest_bytes(1), stores.policies.latest()
    assert second is not None
    assert second.parent == 1
    assert second.parent_manifest == second.digest(first)


def test_a_device_that_makes_no_update_is_not_named_with_its_words(learning: Learning) -> None:
    round_id, _ = learning.begin()
    device: FakeDevice = learning.devices[0]
    learning.rounds.declined(round_id, 1, learning.flower_id(device), "error")
    (update,) = learning.site.stores.rounds.updates(round_id)
    assert update.reason == "error"
