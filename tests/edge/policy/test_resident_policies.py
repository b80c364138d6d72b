"""Several versions resident at once: earlier ones, canaries, and leases by number."""

from __future__ import annotations

import random
import threading
import time

import pytest

from fedaigc.errors import ModelError, SettingsError
from fedaigc.reward_head import RewardHead
from fedaigc_edge.policy.hot_swap import ActivePolicy
from fedaigc_edge.serve.request import UnknownModel
from tests.edge.policy.test_hot_swap import FILE, Host, until, version


@pytest.fixture
def keeping(host: Host) -> ActivePolicy:
    return ActivePolicy(host)


def test_the_last_two_versions_stay_and_can_be_leased_by_number(keeping: ActivePolicy, host: Host) -> None:
    for number in range(1, 5):
        keeping.swap(version(number), FILE)
    assert keeping.resident_versions == (4, 3, 2) and len(host.loaded) == keeping.resident == 3
    with keeping.lease(version(2)) as held:
        assert held.version == 2 and held.adapter_name in host.loaded
    with keeping.lease() as held:
        assert held.version == 4


@pytest.mark.parametrize("number", [1, 5])
def test_a_version_that_is_not_resident_is_an_unknown_model(keeping: ActivePolicy, number: int) -> None:
    for each in range(1, 5):
        keeping.swap(version(each), FILE)
    with pytest.raises(UnknownModel) as refused, keeping.lease(version(number)):
        pass
    assert refused.value.field == "model"


def test_the_base_model_takes_a_place_like_any_version(keeping: ActivePolicy) -> None:
    keeping.swap(version(1), FILE)
    with keeping.lease(version(0)) as held:
        assert held.adapter_name is None
    keeping.swap(version(2), FILE)
    keeping.swap(version(3), FILE)
    assert keeping.resident_versions == (3, 2, 1)


def test_a_policy_carries_its_head_and_the_base_model_has_none(keeping: ActivePolicy) -> None:
    assert keeping.current.head is None
    head = RewardHead.zero(4, 2, "ab" * 32)
    keeping.swap(version(1), FILE, head)
    keeping.swap(version(2), FILE)
    with keeping.lease(version(1)) as held:
        assert held.head is head
    assert keeping.current.head is None


def test_a_swap_waits_for_no_answer_whose_version_stays_resident(keeping: ActivePolicy, host: Host) -> None:
    keeping.swap(version(1), FILE)
    with keeping.lease() as held:
        began = time.monotonic()
        keeping.swap(version(2), FILE, drain_s=60.0)
        assert time.monotonic() - began < 30.0
        assert held.adapter_name in host.loaded


def test_a_kept_version_answers_only_those_who_name_it(keeping: ActivePolicy, host: Host) -> None:
    keeping.swap(version(1), FILE)
    keeping.keep(version(9), FILE)
    assert keeping.current.version == 1 and keeping.resident_versions == (1, 9, 0)
    with keeping.lease(version(9)) as held:
        assert held.adapter_name in host.loaded
    keeping.swap(version(9), FILE)
    assert keeping.resident_versions == (9, 1, 0)
    assert keeping.resident == len(host.loaded) == 2


def test_keeping_the_version_in_force_loads_nothing(keeping: ActivePolicy, host: Host) -> None:
    keeping.swap(version(1), FILE)
    before = set(host.loaded)
    keeping.keep(version(1), FILE)
    assert host.loaded == before and keeping.resident_versions == (1, 0)


def test_a_version_kept_again_replaces_its_first_load(keeping: ActivePolicy, host: Host) -> None:
    keeping.keep(version(7), FILE)
    with keeping.lease(version(7)) as first:
        keeping.keep(version(7), FILE)
        assert keeping.resident_versions == (0, 7) and first.adapter_name in host.loaded
        with keeping.lease(version(7)) as second:
            assert second.adapter_name != first.adapter_name
    until(lambda: first.adapter_name not in host.loaded)
    assert keeping.resident == 1


def test_a_canary_that_does_not_load_changes_nothing(keeping: ActivePolicy, host: Host) -> None:
    keeping.swap(version(1), FILE)
    host.fails = True
    with pytest.raises(ModelError):
        keeping.keep(version(2), FILE)
    assert keeping.resident_versions == (1, 0)


def test_without_room_for_an_earlier_version_nothing_can_be_kept(active: ActivePolicy) -> None:
    with pytest.raises(ModelError):
        active.keep(version(1), FILE)


@pytest.mark.parametrize("earlier", [-1, 65])
def test_a_senseless_number_of_earlier_versions_is_refused(host: Host, earlier: int) -> None:
    with pytest.raises(SettingsError):
        ActivePolicy(host, earlier=earlier)


def test_an_answer_begins_and_ends_while_a_load_and_an_unload_hang(host: Host) -> None:
    active = ActivePolicy(host, earlier=0)
    active.swap(version(1), FILE)
    host.hanging.clear()
    with active.lease() as held:
        swap = threading.Thread(target=active.swap, args=(version(2), FILE, None, 0.0))
        swap.start()
        until(lambda: host.waiting == 1)
        with active.lease() as other:
            assert other.version == held.version == 1
        host.hanging.set()
        swap.join()
        host.hanging.clear()
    # The last answer of version 1 has ended; its unloading hangs in a thread of its own.
    until(lambda: host.waiting == 1)
    with active.lease() as new:
        assert new.version == 2
    host.hanging.set()
    until(lambda: host.loaded == {active.current.adapter_name})


def test_1000_swaps_while_8_threads_lease_fail_nowhere_and_keep_their_bound(host: Host) -> None:
    active = ActivePolicy(host, earlier=2)
    stop = threading.Event()
    faults: list[str] = []
    answers = [0] * 8

    def stream(number: int) -> None:
        dice = random.Random(number)
        while not stop.is_set():
            pinned = dice.choice(active.resident_versions) if dice.random() < 0.5 else None
            try:
                with active.lease(pinned) as policy:
                    name = policy.adapter_name
                    for _ in range(dice.randrange(1, 4)):
                        if name is not None and name not in host.loaded:
                            faults.append(f"{name} was unloaded under a lease")
                        if pinned is not None and policy.version != pinned:
                            faults.append(f"{pinned} asked, {policy.version} leased")
                        time.sleep(dice.random() / 5000)
            except UnknownModel:
                continue  # two swaps came between reading the list and leasing
            answers[number] += 1

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for number in range(1, 1001):
        active.swap(version(number), FILE, drain_s=0.002)
        time.sleep(0.0005)
        # Every answer drains at most one version.
        if len(host.loaded) > 1 + 2 + 8 + 1:
            faults.append(f"{len(host.loaded)} adapters are loaded")
    stop.set()
    for thread in threads:
        thread.join()
    assert not faults and min(answers) > 100
    until(lambda: len(host.loaded) == 3)
    assert active.resident_versions == (1000, 999, 998)
