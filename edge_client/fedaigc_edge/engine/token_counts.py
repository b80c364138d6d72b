"""How often each token occurred in an answer or its prompt, as arrays that logits can be indexed with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


class TokenCounts:
    """`ids` and `counts` run in parallel; ids outside the vocabulary are not counted."""

    def __init__(self, tokens: Sequence[int], vocabulary: int) -> None:
        known, counts = np.unique(np.asarray(tokens, np.int64), return_counts=True)
        inside = (known >= 0) & (known < vocabulary)
        self._ids, self._counts = known[inside], counts[inside].astype(np.int64)
        self._places = {int(token): place for place, token in enumerate(self._ids)}
        self._vocabulary = vocabulary

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """Every token that occurred, once, (distinct tokens,)."""
        return self._ids[: len(self._places)]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How often, (distinct tokens,)."""
        return self._counts[: len(self._places)]

    def add(self, token: int) -> None:
        """Count one more; constant time."""
        if not 0 <= token < self._vocabulary:
            return
        place = self._places.setdefault(token, len(self._places))
        if place == self._ids.size:
            room = np.zeros(max(64, self._ids.size), np.int64)
            self._ids = np.concatenate([self._ids, room])
            self._counts = np.concatenate([self._counts, room])
        self._ids[place] = token
        self._counts[place] += 1
