from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.errors import SettingsError
from fedaigc_edge.engine.draft_length import DraftBounds, DraftLength, StepCosts

PLAIN_S = 0.007


def linear(extra: float) -> Callable[[int], float]:
    return lambda length: 1.0 + extra * length


def stepped(length: int) -> float:
    """A kernel that computes four rows at a time."""
    return 1.0 if length < 4 else 2.2


def expected_tokens(acceptance: float, length: int) -> float:
    """By definition: the sum over how many are accepted, not the closed form."""
    exactly = [acceptance**k * (1 - acceptance) for k in range(length)] + [acceptance**length]
    return sum((k + 1) * share for k, share in enumerate(exactly))


@cache
def speed(acceptance: float, cost: Callable[[int], float], length: int) -> float:
    return expected_tokens(acceptance, length) / cost(length) if length else 1.0


@cache
def optimum(acceptance: float, cost: Callable[[int], float], bounds: DraftBounds, allowed: int) -> int:
    lengths = range(bounds.shortest, allowed + 1)
    best = max(lengths, key=lambda length: speed(acceptance, cost, length))
    return best if speed(acceptance, cost, best) >= 1.05 else 0


class Stream:
    """A text whose drafted tokens are right with one probability, on a machine with given step times."""

    def __init__(self, length: DraftLength, cost: Callable[[int], float], seed: int = 1) -> None:
        self.length, self.cost = length, cost
        self.dice = random.Random(seed)
        self.tokens, self.seconds = 0, 0.0

    def steps(self, number: int, acceptance: float) -> Counter[int]:
        chosen: Counter[int] = Counter()
        for _ in range(number):
            length = self.length.next()
            chosen[length] += 1
            seconds = PLAIN_S * self.cost(length) * self.dice.uniform(0.9, 1.1)
            accepted = 0
            while accepted < length and self.dice.random() < acceptance:
                accepted += 1
            if length:
                self.length.note(length, accepted, seconds)
            else:
                self.length.note_plain(seconds)
            self.tokens += accepted + 1
            self.seconds += seconds
        return chosen


@pytest.mark.parametrize("acceptance", [0.05, 0.3, 0.5, 0.75, 0.9, 0.98])
@pytest.mark.parametrize("cost", [linear(0.02), linear(0.1), linear(0.3), linear(0.6), stepped])
def test_it_settles_on_the_best_length_that_the_guard_rails_allow(
    acceptance: float, cost: Callable[[int], float]
) -> None:
    bounds = DraftBounds(2, 8)
    length = DraftLength(bounds)
    stream = Stream(length, cost)
    stream.steps(500, acceptance)
    reached = wanted = 0.0
    for _ in range(1000):
        # Noise moves the guard rails now and then, and the optimum with them.
        wanted += speed(acceptance, cost, optimum(acceptance, cost, bounds, length.allowed))
        reached += sum(speed(acceptance, cost, g) for g in stream.steps(1, acceptance))
    if wanted / 1000 >= 1.2:
        assert reached >= 0.98 * wanted
    else:
        # So little to win may stay unseen, but nothing may be lost.
        assert reached >= 0.98 * 1000


@pytest.mark.parametrize(("acceptance", "allowed"), [(0.5, 2), (0.95, 8)])
def test_rejections_move_the_allowed_length(acceptance: float, allowed: int) -> None:
    length = DraftLength(DraftBounds(2, 8))
    Stream(length, linear(0.02)).steps(400, acceptance)
    assert length.allowed == allowed


def test_between_the_thresholds_the_allowed_length_stays() -> None:
    length = DraftLength(DraftBounds(3, 6))
    for _ in range(200):
        length.note(4, 3, PLAIN_S)  # three of four checked: rejected 0.25
        assert length.allowed == 6


def test_more_than_a_third_rejected_halves_and_few_rejected_double() -> None:
    length = DraftLength(DraftBounds(1, 8))
    while length.acceptance >= 0.65:
        assert length.allowed == 8
        length.note(4, 0, PLAIN_S)
    assert length.allowed == 4
    length.note(4, 0, PLAIN_S)
    assert length.allowed == 2
    while length.acceptance <= 0.85:
        length.note(4, 4, PLAIN_S)
    assert length.allowed >= 2
    for _ in range(3):
        length.note(4, 4, PLAIN_S)
    assert length.allowed == 8


def test_a_text_that_repeats_nothing_turns_drafts_off_within_some_tokens() -> None:
    stream = Stream(DraftLength(), linear(0.2))
    stream.steps(40, 0.05)
    assert stream.length.next() == 0
    chosen = stream.steps(2000, 0.05)
    # One probe of the shortest length in 64 tokens, seldom one more.
    assert set(chosen) <= {0, 3} and chosen[3] <= 2000 / 64 * 1.3
    assert stream.seconds <= stream.tokens * PLAIN_S * 1.1


def test_drafts_come_back_when_the_text_becomes_repetitive() -> None:
    stream = Stream(DraftLength(), linear(0.1))
    stream.steps(500, 0.02)
    assert stream.length.next() == 0
    stream.steps(100, 0.95)
    chosen = stream.steps(100, 0.95)
    assert chosen[0] < 10 and chosen[6] > 60


def test_on_a_machine_where_drafts_cost_as_much_as_they_bring_they_stay_off() -> None:
    stream = Stream(DraftLength(), linear(1.0))
    stream.steps(200, 0.95)
    assert stream.steps(1000, 0.95)[0] > 900


def test_what_other_streams_measured_counts_at_once() -> None:
    costs = StepCosts()
    Stream(DraftLength(costs=costs), linear(1.0)).steps(300, 0.9)
    assert DraftLength(costs=costs).next() == 0
    assert DraftLength().next() >= 3


def test_a_proposal_shorter_than_asked_is_a_measurement_of_its_own_length() -> None:
    costs = StepCosts()
    length = DraftLength(costs=costs)
    length.note_plain(1.0)
    length.note(1, 1, 1.5)
    length.note(5, 5, 3.0)
    assert costs.cost(1) == 1.5 and costs.cost(5) == 3.0 and costs.cost(0) == 1.0
    # Least squares through (0, 1): (1 * 0.5 + 5 * 2.0) / (1 + 25).
    assert costs.cost(4) == pytest.approx(1 + 4 * 10.5 / 26)


def test_an_empty_proposal_is_a_plain_step() -> None:
    one, other = DraftLength(), DraftLength()
    one.note(0, 0, PLAIN_S)
    other.note_plain(PLAIN_S)
    assert one.next() == other.next() and one.acceptance == other.acceptance


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.floats(1e-4, 1.0)), max_size=200))
def test_every_choice_is_off_or_within_bounds_and_asking_changes_nothing(
    history: list[tuple[int, int, float]],
) -> None:
    one, other = DraftLength(), DraftLength()
    for proposed, accepted, seconds in history:
        for _ in range(3):
            assert one.next() == 0 or 3 <= one.next() <= one.allowed <= 6
        one.note(proposed, min(proposed, accepted), seconds)
        other.note(proposed, min(proposed, accepted), seconds)
        assert 0.0 <= one.acceptance <= 1.0
        assert one.next() == other.next()


@given(st.floats(0.0, 1.0), st.integers(1, 8))
def test_the_speed_up_without_cost_is_the_expected_number_of_tokens(share: float, length: int) -> None:
    costs = StepCosts()
    costs.note(0, 1.0)
    costs.note(length, 1.0)
    drafts = DraftLength(costs=costs)
    drafts._checked, drafts._accepted = 1.0, share
    assert drafts.speed_up(length) == pytest.approx(expected_tokens(share, length))


@pytest.mark.parametrize(("shortest", "longest"), [(0, 3), (4, 3), (3, 9)])
def test_senseless_bounds_are_refused(shortest: int, longest: int) -> None:
    with pytest.raises(SettingsError):
        DraftBounds(shortest, longest)
