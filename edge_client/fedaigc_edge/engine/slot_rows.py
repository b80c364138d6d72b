"""What each slot's keys and values stand for, and which slot a new prompt should take.

A slot whose answer has ended keeps its prompt, so that the next turn of a conversation, or another prompt
with the same beginning, need not compute it again. Keys and values depend on the adapter: tokens are only
reused under the one that they were computed under. What was written as an answer is not reused: the runtime
rounds a token alone otherwise than one among several, and an answer must not depend on what was asked before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

TokenArray = npt.NDArray[np.int64]

LEAST_COPY = 16
"""Shorter common beginnings are not worth copying from a slot that is in use."""


@dataclass
class SlotRow:
    """One slot: the tokens whose keys and values lie in it, and under which adapter."""

    index: int
    tokens: TokenArray = field(default_factory=lambda: np.empty(0, np.int64))
    length: int = 0
    prompt: int = 0
    """How many of the tokens are its prompt's."""
    adapter: str | None = None
    busy: bool = False
    used_at: int = 0

    @property
    def content(self) -> TokenArray:
        """The tokens in it."""
        return self.tokens[: self.length]

    def begin(self, tokens: TokenArray, length: int, room: int, adapter: str | None, at: int) -> None:
        """Take the slot for a prompt of which the first `length` tokens are there already."""
        self.tokens = np.empty(room, np.int64)
        self.tokens[: len(tokens)] = tokens
        self.length, self.prompt, self.adapter = length, len(tokens), adapter
        self.busy, self.used_at = True, at

    def forget(self) -> None:
        """Nothing in it can be reused any more."""
        self.tokens, self.length = np.empty(0, np.int64), 0


@dataclass(frozen=True)
class Place:
    """Where a prompt goes: `reused` tokens are there, copied from the slot `source` unless it is the same."""

    slot: int
    reused: int
    source: int


def choose_place(rows: Sequence[SlotRow], prompt: TokenArray, adapter: str | None) -> Place | None:
    """The slot for a prompt; None when all are busy.

    Slots near those in use are preferred, because a step computes all slots from the first busy one to the
    last: a longer beginning elsewhere is copied to them.
    """
    free = [row for row in rows if not row.busy]
    if not free:
        return None
    common = {row.index: _common(row, prompt, adapter) for row in rows}
    target = min(free, key=lambda row: (_widening(rows, row), -common[row.index], row.used_at, row.index))
    source = max(rows, key=lambda row: (common[row.index], row is target))
    if common[source.index] - common[target.index] < LEAST_COPY:
        source = target
    return Place(target.index, common[source.index], source.index)


def _common(row: SlotRow, prompt: TokenArray, adapter: str | None) -> int:
    """Tokens that both begin with. The last two of the prompt are always computed: the last for its logits,
    and not alone."""
    if row.adapter != adapter:
        return 0
    most = max(0, min(row.length, row.prompt, len(prompt) - 2))
    differs = row.tokens[:most] != prompt[:most]
    return int(differs.argmax()) if differs.any() else most


def _widening(rows: Iterable[SlotRow], row: SlotRow) -> int:
    busy = [other.index for other in rows if other.busy]
    if not busy:
        return 0
    first, last = min(busy), max(busy)
    return max(first - row.index, row.index - last, 0)
