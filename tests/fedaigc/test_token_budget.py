"""The budget is never over-committed, whatever happens in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from fedaigc.errors import BudgetExceeded, RequestInvalid, SettingsError
from fedaigc.token_budget import BudgetHold, TokenBudget

CAPACITY = 100
WINDOW_S = 60.0


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


class BudgetMachine(RuleBasedStateMachine):
    """Any order of reserving, settling, releasing and passing time, against a model of two numbers."""

    holds = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.budget = TokenBudget(CAPACITY, WINDOW_S, self.clock)
        self.window = 0
        self.used = 0
        self.open: dict[int, int] = {}

    def _roll(self) -> None:
        window = int(self.clock.time // WINDOW_S)
        if window > self.window:
            self.window, self.used = window, 0

    @rule(target=holds, tokens=st.integers(0, CAPACITY + 5))
    def reserve(self, tokens: int) -> BudgetHold:
        self._roll()
        free = CAPACITY - self.used - sum(self.open.values())
        try:
            hold = self.budget.reserve(tokens)
        except RequestInvalid:
            assert tokens > CAPACITY
        except BudgetExceeded as error:
            assert tokens > free
            assert 1 <= error.retry_after_s <= WINDOW_S
        else:
            assert tokens <= free
            self.open[hold.number] = tokens
            return hold
        return BudgetHold(0, 0)

    @rule(hold=consumes(holds), share=st.floats(0, 1))
    def settle(self, hold: BudgetHold, share: float) -> None:
        if hold.number == 0:
            return
        used = int(hold.tokens * share)
        self.budget.settle(hold, used)
        self._roll()
        self.used += used
        del self.open[hold.number]
        with pytest.raises(RequestInvalid):
            self.budget.settle(hold, 0)

    @rule(hold=consumes(holds))
    def release(self, hold: BudgetHold) -> None:
        if hold.number == 0:
            return
        self.budget.release(hold)
        del self.open[hold.number]

    @rule(seconds=st.floats(0, 150))
    def wait(self, seconds: float) -> None:
        self.clock.time += seconds

    @invariant()
    def never_over_committed(self) -> None:
        self._roll()
        assert self.budget.used == self.used
        assert self.budget.held == sum(self.open.values())
        assert 0 <= self.budget.free == CAPACITY - self.budget.used - self.budget.held


BudgetMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBudgetIsNeverOverCommitted = BudgetMachine.TestCase


def test_a_request_larger_than_the_whole_budget_is_told_to_ask_for_less() -> None:
    with pytest.raises(RequestInvalid) as caught:
        TokenBudget(10, 60, Clock()).reserve(11)
    assert caught.value.field == "max_tokens"


def test_retry_after_is_the_time_until_the_window_ends() -> None:
    clock = Clock()
    budget = TokenBudget(10, 60, clock)
    budget.reserve(10)
    clock.time = 40.5
    with pytest.raises(BudgetExceeded) as caught:
        budget.reserve(1)
    assert caught.value.retry_after_s == 20


def test_a_hold_that_outlives_its_window_still_counts_in_the_next() -> None:
    clock = Clock()
    budget = TokenBudget(10, 60, clock)
    hold = budget.reserve(7)
    clock.time = 61
    assert budget.free == 3
    budget.settle(hold, 5)
    assert (budget.used, budget.free) == (5, 5)


def test_using_more_than_was_held_charges_the_hold_and_is_reported() -> None:
    budget = TokenBudget(10, 60, Clock())
    with pytest.raises(BudgetExceeded):
        budget.settle(budget.reserve(4), 6)
    assert (budget.used, budget.held) == (4, 0)


@pytest.mark.parametrize(("capacity", "window"), [(0, 60.0), (-1, 60.0), (1, 0.0), (1, float("inf"))])
def test_a_budget_that_is_not_positive_is_refused(capacity: int, window: float) -> None:
    with pytest.raises(SettingsError):
        TokenBudget(capacity, window, Clock())
