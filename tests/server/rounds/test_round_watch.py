from __future__ import annotations

import pytest

from fedaigc.errors import Unavailable
from fedaigc_server.federation.superlink_api import ENDED, GONE
from fedaigc_server.rounds.round_store import FAILED, RELEASED, Round
from fedaigc_server.rounds.round_watch import CLOSE_GRACE_S, RoundWatch
from tests.server.rounds.conftest import Learning


def _watch(learning: Learning, attempts: int = 3) -> RoundWatch:
    site = learning.site
    return RoundWatch(site.stores.rounds, learning.rounds, site.flower, attempts, site.clock)


def _look(learning: Learning, watch: RoundWatch, round_id: str) -> Round:
    watch.look(learning.site.stores.rounds.round(round_id))
    return learning.site.stores.rounds.round(round_id)


def test_a_new_round_is_submitted_once(learning: Learning) -> None:
    watch, round_id = _watch(learning), learning.rounds.create(2, 600)
    for _ in range(3):
        found = _look(learning, watch, round_id)
    assert (found.attempt, found.flower_run) == (1, "1")
    assert len(learning.site.flower.runs) == 1


@pytest.mark.parametrize("state", [ENDED, GONE])
def test_a_run_that_died_is_submitted_again_with_another_number(learning: Learning, state: str) -> None:
    watch, round_id = _watch(learning), learning.rounds.create(2, 600)
    _look(learning, watch, round_id)
    learning.site.flower.runs["1"] = state
    found = _look(learning, watch, round_id)
    assert (found.attempt, found.flower_run) == (2, "2")


def test_attempts_are_bounded_and_the_round_then_closes_with_what_it_has(learning: Learning) -> None:
    watch, round_id = _watch(learning, attempts=2), learning.rounds.create(2, 600)
    for _ in range(4):
        found = _look(learning, watch, round_id)
        learning.site.flower.runs = dict.fromkeys(learning.site.flower.runs, ENDED)
    assert found.state == FAILED
    assert found.reason
    assert len(learning.site.flower.runs) == 2


def test_at_the_deadline_enough_updates_still_make_a_policy(learning: Learning) -> None:
    round_id, plan = learning.begin(deadline_s=100)
    for device in learning.devices:
        learning.send(round_id, device, device.update(plan))
    learning.site.seconds += 100 + CLOSE_GRACE_S + 1
    found = _look(learning, _watch(learning), round_id)
    assert found.state == RELEASED
    assert learning.site.flower.stopped == ["1"]


def test_at_the_deadline_a_silent_round_fails_though_flower_is_down(learning: Learning) -> None:
    round_id, _ = learning.begin(deadline_s=100)
    learning.site.flower.down = True
    learning.site.seconds += 100 + CLOSE_GRACE_S + 1
    found = _look(learning, _watch(learning), round_id)
    assert found.state == FAILED
    assert "did not answer in time" in found.reason


def test_while_flower_is_down_no_attempt_is_used_up(learning: Learning) -> None:
    watch, round_id = _watch(learning), learning.rounds.create(2, 600)
    learning.site.flower.down = True
    for _ in range(5):
        with pytest.raises(Unavailable):
            _look(learning, watch, round_id)
    learning.site.flower.down = False
    assert _look(learning, watch, round_id).attempt == 1


def test_after_our_own_restart_every_old_run_is_stopped_and_refused(learning: Learning) -> None:
    watch, round_id = _watch(learning), learning.rounds.create(2, 600)
    _look(learning, watch, round_id)
    watch.forget_runs()
    assert learning.site.flower.stopped == ["1"]
    found = _look(learning, watch, round_id)
    assert (found.attempt, found.flower_run) == (2, "2")
