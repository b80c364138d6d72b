"""Decide whether a request fits what is left of the token budget, and reserve it atomically.

A caller reserves an upper estimate before generation and settles with what was really used after it. A hold
that outlives its window is carried into the next one, so `used + held <= capacity` is true at every moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fedaigc.errors import BudgetExceeded, RequestInvalid, SettingsError


@dataclass(frozen=True)
class BudgetHold:
    """Tokens held for one request until it is settled; `number` names it within its budget."""

    number: int
    tokens: int


class TokenBudget:
    """`capacity` tokens for each window of `window_s` seconds.

    No method waits, so each call is atomic for tasks of one event loop; call it from one thread only.

    Args:
        capacity: prompt and completion tokens that one window may use, at least 1.
        window_s: length of a window, seconds; the first one starts now.
        now: a clock in seconds that never runs backwards (`time.monotonic`).

    Raises SettingsError when capacity or window are not positive.
    """

    def __init__(self, capacity: int, window_s: float, now: Callable[[], float]) -> None:
        if capacity < 1 or not 0 < window_s < math.inf:
            raise SettingsError(
                "The token budget must be positive",
                f"capacity {capacity} tokens, window {window_s} s",
                "set at least 1 token and a window above 0 s",
            )
        self.capacity = capacity
        self.window_s = window_s
        self._now = now
        self._started = now()
        self._used = 0
        self._holds: dict[int, BudgetHold] = {}
        self._next = 1

    @property
    def used(self) -> int:
        """Tokens settled in the current window."""
        self._roll()
        return self._used

    @property
    def held(self) -> int:
        """Tokens of all holds that are not settled yet, from whichever window."""
        return sum(hold.tokens for hold in self._holds.values())

    @property
    def free(self) -> int:
        """Tokens that can be reserved now, never negative."""
        return self.capacity - self.used - self.held

    def reserve(self, tokens: int) -> BudgetHold:
        """Hold `tokens` (at least 0), or hold nothing.

        Raises BudgetExceeded when they do not fit now, with the seconds until the window ends, and
        RequestInvalid when they would not fit an empty budget either.
        """
        if tokens < 0 or tokens > self.capacity:
            raise RequestInvalid(
                f"This request may need {tokens} tokens, more than a whole budget window holds",
                f"the budget is {self.capacity} tokens in {self.window_s:g} s",
                "ask for fewer tokens with max_tokens, or shorten the prompt",
                field="max_tokens",
            )
        if tokens > self.free:
            raise BudgetExceeded(
                "The token budget has no room for this request now",
                f"it may need {tokens} tokens and {self.free} of {self.capacity} are free",
                "try again later, or ask for fewer tokens with max_tokens",
                retry_after_s=self._seconds_left(),
            )
        hold = BudgetHold(self._next, tokens)
        self._next += 1
        self._holds[hold.number] = hold
        return hold

    def settle(self, hold: BudgetHold, used: int) -> None:
        """End a hold and charge `used` tokens to the current window.

        Raises BudgetExceeded when more was used than held (the whole hold is charged then), and
        RequestInvalid for a hold that this budget does not know or that was settled before.
        """
        if self._holds.get(hold.number) != hold:
            raise RequestInvalid(
                "This budget hold is not open", "it was settled before, or is another budget's", "settle once"
            )
        self._roll()
        del self._holds[hold.number]
        self._used += min(max(used, 0), hold.tokens)
        if used > hold.tokens:
            raise BudgetExceeded(
                "A request used more tokens than it had reserved",
                f"{used} used, {hold.tokens} reserved",
                "this is a defect: please report it",
                retry_after_s=self._seconds_left(),
            )

    def release(self, hold: BudgetHold) -> None:
        """Give a hold back unused; raises like `settle`."""
        self.settle(hold, 0)

    def _roll(self) -> None:
        passed = math.floor((self._now() - self._started) / self.window_s)
        if passed >= 1:
            self._started += passed * self.window_s
            self._used = 0

    def _seconds_left(self) -> int:
        return max(1, math.ceil(self._started + self.window_s - self._now()))
