"""Stages add up to the whole, and none is below zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc_edge.engine.generator import EngineTimes
from fedaigc_edge.serve.stage_clock import GOVERNANCE, STAGES, StageClock


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ns = 10**12

    def __call__(self) -> int:
        return self.ns


def test_what_no_stage_claims_is_other() -> None:
    now = Hands()
    clock = StageClock(now)
    now.ns += 5
    with clock.stage("gate"):
        now.ns += 7
    with clock.stage("gate"):
        now.ns += 2
    with clock.generation(lambda: EngineTimes(1, 10, 80)):
        now.ns += 100
    with clock.seal(lambda: 4):
        now.ns += 30
    times = clock.end()
    expected = {
        "gate": 9,
        "queue": 1,
        "prefill": 10,
        "decode": 80,
        "fingerprint": 4,
        "outbox": 26,
        "other": 14,
    }
    assert times.stages == {**dict.fromkeys(STAGES, 0), **expected}
    assert times.total_ns == sum(times.stages.values()) == 144
    assert times.governance_ns == 9 + 4 + 26 + 14
    assert set(GOVERNANCE) < set(STAGES)


def test_a_stage_that_raises_is_timed_too() -> None:
    now = Hands()
    clock = StageClock(now)
    with pytest.raises(ZeroDivisionError), clock.stage("budget"):
        now.ns += 3
        raise ZeroDivisionError
    assert clock.end().stages["budget"] == 3


def test_the_end_is_told_once() -> None:
    now = Hands()
    clock = StageClock(now)
    first = clock.end()
    now.ns += 50
    assert clock.end() is first


@given(
    st.lists(
        st.tuples(st.sampled_from(["gate", "engine", "seal", "nothing"]), st.integers(0, 10**9)), max_size=12
    ),
    st.integers(-(10**6), 10**10),
)
def test_whatever_an_engine_or_a_writer_claims_stages_sum_to_the_total(
    steps: list[tuple[str, int]], claim: int
) -> None:
    now = Hands()
    clock = StageClock(now)
    for kind, ns in steps:
        if kind == "engine":
            with clock.generation(lambda: EngineTimes(claim, claim // 2, claim)):
                now.ns += ns
        elif kind == "seal":
            with clock.seal(lambda: max(0, claim)):
                now.ns += ns
        elif kind == "gate":
            with clock.stage("gate"):
                now.ns += ns
        else:
            now.ns += ns
    times = clock.end()
    assert times.total_ns == sum(ns for _, ns in steps) == sum(times.stages.values())
    assert min(times.stages.values()) >= 0
    told = times.milliseconds()
    assert told["total"] == pytest.approx(sum(told[name] for name in STAGES), rel=1e-9, abs=1e-9)


def test_the_first_token_and_the_mean_of_the_later_ones() -> None:
    now = Hands()
    clock = StageClock(now)
    now.ns += 40
    clock.tokens(2)
    now.ns += 30
    clock.tokens(1)
    now.ns += 30
    clock.tokens(2)
    times = clock.end()
    assert (times.first_token_ns, times.per_token_ns) == (40, 20.0)


def test_without_tokens_there_are_no_token_times() -> None:
    clock = StageClock(Hands())
    assert (clock.end().first_token_ns, clock.end().per_token_ns) == (None, None)
    clock = StageClock(Hands())
    clock.tokens(1)
    assert clock.end().per_token_ns is None
