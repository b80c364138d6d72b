"""The keys and values of every slot in one memory reservation, admitted by predicted bytes, never over it.

Each layer has two arrays (slots, kv_heads, row_tokens, head_dim) in which a slot is one row, so that any run
of neighbouring slots is one contiguous batch without copying. The reservation is virtual: a page costs memory
when a token is first written to it, and is given back when the slot is emptied. What admission counts is
the sound formula 2 * layers * kv_heads * head_dim * bytes * tokens, which is per kv head, not per hidden
feature.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np

from fedaigc.arrays import FloatArray

_BYTES = 4
_NO_RESERVE = 0x4000
"""Linux's MAP_NORESERVE: the address range is not counted against overcommit."""


@dataclass(frozen=True)
class KvShape:
    """What one token's keys and values look like."""

    layers: int
    kv_heads: int
    head_dim: int

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token in all layers, keys and values."""
        return 2 * self.layers * self.kv_heads * self.head_dim * _BYTES


class KvPool:
    """Slots of `row_tokens` tokens each, and the bytes that may be promised to all of them together.

    A slot's promise is what its answer may grow to; what a finished slot keeps for reuse counts until it is
    given up. Used from one thread.

    Args:
        limit_bytes: promised and kept bytes never exceed it.
    """

    def __init__(self, shape: KvShape, slots: int, row_tokens: int, limit_bytes: int) -> None:
        self.shape = shape
        self.slots = slots
        self.row_tokens = row_tokens
        self.limit_bytes = limit_bytes
        self.peak_bytes = 0
        """The most that was ever promised and kept at one time."""
        self._row_bytes = shape.kv_heads * row_tokens * shape.head_dim * _BYTES
        self._memory = _reserved(2 * shape.layers * slots * self._row_bytes)
        flat = np.frombuffer(self._memory, np.float32, 2 * shape.layers * slots * self._row_bytes // _BYTES)
        of_all = flat.reshape(2 * shape.layers, slots, shape.kv_heads, row_tokens, shape.head_dim)
        self.arrays: tuple[FloatArray, ...] = tuple(of_all)
        """Keys and values of layer 0, then of layer 1, and so on: (slots, kv_heads, row_tokens, head_dim)."""
        self._promised = [0] * slots
        self._held = [0] * slots

    @property
    def promised_bytes(self) -> int:
        """What running and kept slots may need together."""
        return sum(self._promised) * self.shape.bytes_per_token

    @property
    def held_bytes(self) -> int:
        """What they hold now."""
        return sum(self._held) * self.shape.bytes_per_token

    def fits_alone(self, tokens: int) -> bool:
        """Whether an answer of `tokens` tokens, prompt included, can ever be admitted."""
        return tokens <= self.row_tokens and tokens * self.shape.bytes_per_token <= self.limit_bytes

    def promise(self, slot: int, tokens: int) -> bool:
        """Let `slot` grow to `tokens` tokens; False, and nothing changes, when that is over the limit."""
        before = self._promised[slot]
        self._promised[slot] = tokens
        if self.promised_bytes > self.limit_bytes or tokens > self.row_tokens:
            self._promised[slot] = before
            return False
        self.peak_bytes = max(self.peak_bytes, self.promised_bytes)
        return True

    def hold(self, slot: int, tokens: int) -> None:
        """Note that `slot` holds `tokens` tokens now."""
        if tokens > self._promised[slot]:
            raise AssertionError(f"slot {slot} holds {tokens} tokens and was promised {self._promised[slot]}")
        self._held[slot] = tokens

    def keep(self, slot: int, tokens: int) -> None:
        """The slot's answer has ended: what it holds may be reused, what it did not use is free again."""
        self._held[slot] = min(self._held[slot], tokens)
        self._promised[slot] = self._held[slot]

    def empty(self, slot: int) -> None:
        """Give up what a slot holds, and its memory."""
        if self._held[slot] or self._promised[slot]:
            self._held[slot] = self._promised[slot] = 0
            self._give_back(slot)

    def fragmentation(self) -> tuple[float, float]:
        """Internal and external, 0 to 1: unused share of promised tokens; free bytes outside the largest gap.

        Any slot can take any free bytes up to its row, so the largest gap is one row or all that is free.
        """
        promised, held = sum(self._promised), sum(self._held)
        internal = 1.0 - held / promised if promised else 0.0
        free = self.limit_bytes - self.promised_bytes
        row = self.row_tokens * self.shape.bytes_per_token
        largest = min(free, row) if 0 in self._promised else 0
        return internal, 1.0 - largest / free if free > 0 else 0.0

    def _give_back(self, slot: int) -> None:
        page = mmap.PAGESIZE
        for layer in range(2 * self.shape.layers):
            start = (layer * self.slots + slot) * self._row_bytes
            first, end = -(-start // page) * page, (start + self._row_bytes) // page * page
            if end > first:
                self._memory.madvise(mmap.MADV_DONTNEED, first, end - first)


def _reserved(size: int) -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    memory = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=flags)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        # A huge page would hold memory for two thousand tokens when one was written.
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory
