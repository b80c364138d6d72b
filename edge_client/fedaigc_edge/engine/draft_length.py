"""How many tokens to draft: as many as the measured acceptance and step times make worth while.

A step that checks g drafted tokens yields (1 - a^(g+1)) / (1 - a) tokens on average when each is accepted
with probability a (Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding",
2023, equation 1), and costs what the measured times say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedaigc.errors import SettingsError

MAX_LENGTH = 8
"""No longer draft pays on any machine measured, and each length needs its own scratch rows of logits."""
SHORTEST = 3
LONGEST = 6
HALVE_ABOVE = 0.35
DOUBLE_BELOW = 0.15
"""Shares of checked tokens that were rejected at which the allowed length is halved, or doubled."""
WORTH = 1.05
"""A smaller expected speed-up is not worth the risk of being wrong."""
PROBE_STEPS = 64
"""Steps between two that are made only to learn; while off, a step is a token."""
FORGET = 0.95
"""What a draft leaves of the weight of older ones: a text's character changes within some twenty drafts."""
FORGET_OFF = 0.5
"""The same while off, where a probe is all there is to see that the text has become repetitive."""
TIME_WEIGHT = 0.1
"""How much the newest step counts in an average time."""
GUESSED_COST = 0.1
"""What a drafted token adds to a step, in plain steps, before anything was measured."""
GUESSED_ACCEPTANCE = 0.7
GUESS_WEIGHT = 3.0
"""The first acceptance is a guess that weighs like this many checked tokens, so that drafting starts."""


@dataclass(frozen=True)
class DraftBounds:
    """The shortest and longest draft, tokens, 1 to 8. Raises SettingsError."""

    shortest: int = SHORTEST
    longest: int = LONGEST

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest <= MAX_LENGTH:
            raise SettingsError(
                f"Drafts must be 1 to {MAX_LENGTH} tokens, the shortest no longer than the longest",
                f"they are {self.shortest} and {self.longest}",
                "correct the two lengths",
            )


class StepCosts:
    """Average times of steps by how many drafted tokens they check, shared by the streams of one engine."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._steps: dict[int, int] = {}
        self._noted_at: dict[int, int] = {}
        self._clock = 0

    def note(self, length: int, seconds: float) -> None:
        """A step with `length` drafted tokens (0: a plain one) took `seconds`."""
        self._clock += 1
        self._noted_at[length] = self._clock
        steps = self._steps[length] = self._steps.get(length, 0) + 1
        before = self._seconds.get(length, seconds)
        # The plain mean until the exponential one takes over: the first step alone is no measurement.
        self._seconds[length] = before + (seconds - before) * max(TIME_WEIGHT, 1 / steps)

    def cost(self, length: int) -> float:
        """The time of a step with `length` drafted tokens in plain steps; what was never measured is read
        off the line through those that were."""
        plain = self._seconds.get(0)
        if not length:
            return 1.0
        if plain is None or plain <= 0:
            return 1.0 + GUESSED_COST * length
        if length in self._seconds:
            return max(self._seconds[length] / plain, 1e-6)
        return 1.0 + self._slope(plain) * length

    def stalest(self, shortest: int, longest: int) -> int:
        """Which length, the plain step (0) included, was measured longest ago."""
        found = 0
        for length in range(shortest, longest + 1):
            if self._noted_at.get(length, 0) < self._noted_at.get(found, 0):
                found = length
        return found

    def _slope(self, plain: float) -> float:
        """Least squares through (0, 1)."""
        measured = [(length, seconds / plain - 1.0) for length, seconds in self._seconds.items() if length]
        if not measured:
            return GUESSED_COST
        squares = sum(length * length for length, _ in measured)
        return max(0.0, sum(length * extra for length, extra in measured) / squares)


class DraftLength:
    """Chooses the draft length of one stream; used from one thread. Equal histories give equal choices.

    Args:
        bounds: of the length.
        costs: step times; give all streams of an engine the same.
    """

    def __init__(self, bounds: DraftBounds | None = None, costs: StepCosts | None = None) -> None:
        self._bounds = bounds or DraftBounds()
        self._costs = costs or StepCosts()
        self._allowed = self._bounds.longest
        self._checked = GUESS_WEIGHT
        self._accepted = GUESS_WEIGHT * GUESSED_ACCEPTANCE
        self._since_probe = 0
        self._best = self._worth_while()

    @property
    def acceptance(self) -> float:
        """The share of checked tokens that the model confirmed, lately."""
        return self._accepted / self._checked

    @property
    def allowed(self) -> int:
        """The longest draft that the rejections allow now."""
        return self._allowed

    def next(self) -> int:
        """How many tokens to draft for the next step; 0 means a plain step. Changes nothing."""
        if self._since_probe < PROBE_STEPS:
            return self._best
        if not self._best:
            return self._bounds.shortest
        return self._costs.stalest(self._bounds.shortest, self._allowed)

    def speed_up(self, length: int) -> float:
        """Tokens a second with drafts of `length`, over those of plain steps."""
        a = self.acceptance
        tokens = length + 1.0 if a > 1.0 - 1e-9 else (1.0 - math.pow(a, length + 1)) / (1.0 - a)
        return tokens / self._costs.cost(length)

    def note(self, proposed: int, accepted: int, seconds: float) -> None:
        """A step checked `proposed` tokens, confirmed the first `accepted` of them, and took `seconds`."""
        if proposed <= 0:
            self.note_plain(seconds)
            return
        off = not self._best
        self._costs.note(proposed, seconds)
        forget = FORGET_OFF if off else FORGET
        # After the first rejection nothing is checked.
        self._checked = self._checked * forget + min(accepted + 1, proposed)
        self._accepted = self._accepted * forget + accepted
        self._guard()
        self._stepped(probed=self._since_probe >= PROBE_STEPS)
        if off and accepted == proposed:
            # All right, so the text may have changed: look again at once.
            self._since_probe = PROBE_STEPS

    def note_plain(self, seconds: float) -> None:
        """A plain step of one token took `seconds`."""
        probed = self._since_probe >= PROBE_STEPS and self.next() == 0
        self._costs.note(0, seconds)
        self._stepped(probed)

    def _worth_while(self) -> int:
        lengths = range(self._bounds.shortest, self._allowed + 1)
        best = max(lengths, key=self.speed_up)
        return best if self.speed_up(best) >= WORTH else 0

    def _guard(self) -> None:
        rejected = 1.0 - self.acceptance
        if rejected > HALVE_ABOVE:
            self._allowed = max(self._bounds.shortest, self._allowed // 2)
        elif rejected < DOUBLE_BELOW:
            self._allowed = min(self._bounds.longest, self._allowed * 2)

    def _stepped(self, probed: bool) -> None:
        self._since_probe = 1 if probed else self._since_probe + 1
        self._best = self._worth_while()
