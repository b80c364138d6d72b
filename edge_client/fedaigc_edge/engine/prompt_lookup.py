"""Draft tokens without a draft model: what followed the same few tokens earlier in prompt or answer.

Answers that quote, edit or summarise their prompt, and code, repeat themselves; the model then only has to
confirm. Saxena, "Prompt Lookup Decoding" (2023).
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 4
SHORTEST = 2
"""Lengths of the suffix that is looked up, longest first; single tokens repeat everywhere and mislead."""
WINDOW = 32_768
"""Positions that are remembered; older ones are forgotten, so that no context makes the index larger."""
_TOKEN_BITS = 32


class PromptLookup:
    """An index over the n-grams of one prompt and its answer; used from one thread.

    Tokens are indexed when a draft is asked for, so a stream that never drafts costs a list append a token.

    Args:
        tokens: the prompt, and what of the answer is there already.
        window: how many of the latest positions are remembered; at most three dictionary entries each.
    """

    def __init__(self, tokens: Sequence[int], window: int = WINDOW) -> None:
        self._tokens = list(tokens)
        self._window = max(1, window)
        self._indexed = 0
        # n -> packed n-gram -> where the token that followed its latest occurrence is.
        self._followers: dict[int, dict[int, int]] = {n: {} for n in range(LONGEST, SHORTEST - 1, -1)}

    def __len__(self) -> int:
        """How many tokens the text has."""
        return len(self._tokens)

    @property
    def remembered(self) -> int:
        """How many n-grams the index holds now."""
        return sum(map(len, self._followers.values()))

    def append(self, token: int) -> None:
        """Add one token of the answer."""
        self._tokens.append(token)

    def propose(self, length: int) -> list[int]:
        """At most `length` tokens that followed the latest earlier occurrence of the text's end; maybe none.

        The longest known suffix decides. Where the copy runs into the text's end it goes on with itself, as
        a text does that repeats with a short period.
        """
        self._index()
        start = self._latest() if length > 0 else None
        if start is None:
            return []
        period = len(self._tokens) - start
        found = self._tokens[start : start + length]
        while len(found) < length:
            found.append(found[-period])
        return found

    def _latest(self) -> int | None:
        packed: dict[int, int] = {}
        value = 0
        for n, token in enumerate(reversed(self._tokens[-LONGEST:]), start=1):
            value |= token << _TOKEN_BITS * (n - 1)
            packed[n] = value
        for n, followers in self._followers.items():
            if n in packed and (start := followers.get(packed[n])) is not None:
                return start
        return None

    def _index(self) -> None:
        """Note for each new position which n-grams end before it.

        The n-gram that ends the text has no follower yet, so a suffix never finds itself.
        """
        for position in range(self._indexed, len(self._tokens)):
            for n, value in self._ending_before(position):
                self._followers[n][value] = position
            old = position - self._window
            for n, value in self._ending_before(old):
                if self._followers[n].get(value) == old:
                    del self._followers[n][value]
        self._indexed = len(self._tokens)

    def _ending_before(self, position: int) -> list[tuple[int, int]]:
        """The n-grams whose follower is at `position`, as (n, packed)."""
        if position < SHORTEST:
            return []
        last = self._tokens
        value = last[position - 1] | last[position - 2] << _TOKEN_BITS
        found = [(2, value)]
        for n in range(3, min(LONGEST, position) + 1):
            value |= last[position - n] << _TOKEN_BITS * (n - 1)
            found.append((n, value))
        return found
