"""Slots and the answers in them: place a prompt, promise it memory, reuse what is there, keep the rest."""

from __future__ import annotations

import numpy as np

from fedaigc_edge.engine.engine_counts import EngineCounts
from fedaigc_edge.engine.kv_pool import KvPool
from fedaigc_edge.engine.running_answer import RunningAnswer
from fedaigc_edge.engine.slot_rows import Place, SlotRow, TokenArray, choose_place


class SlotTable:
    """Which answer has which slot. Used from the engine's thread.

    Args:
        pool: where the slots' keys and values lie.
    """

    def __init__(self, pool: KvPool, counts: EngineCounts) -> None:
        self.rows = [SlotRow(index) for index in range(pool.slots)]
        self._pool = pool
        self._counts = counts
        self._clock = 0

    def admit(self, answer: RunningAnswer) -> bool:
        """Give `answer` a slot with memory for all that it may write; False when there is none now."""
        prompt = np.asarray(answer.job.prompt, np.int64)
        place = self._place(answer, prompt)
        if place is None:
            return False
        reused = place.reused if answer.may_reuse else 0
        if reused and place.source != place.slot:
            self._copy(place)
        row = self.rows[place.slot]
        self._clock += 1
        row.begin(prompt, reused, answer.room, answer.job.adapter, self._clock)
        self._pool.hold(place.slot, reused)
        self._counts.reused += reused
        answer.admit(place.slot, reused)
        return True

    def hold(self, slot: int, tokens: list[int]) -> None:
        """Keys and values of these tokens were computed, after those that the slot holds."""
        row = self.rows[slot]
        row.tokens[row.length : row.length + len(tokens)] = tokens
        row.length += len(tokens)
        self._pool.hold(slot, row.length)

    def leave(self, slot: int, broken: bool = False) -> None:
        """The slot's answer has ended. Its prompt is kept for reuse, unless its step failed."""
        row = self.rows[slot]
        row.busy = False
        if broken:
            row.forget()
            self._pool.empty(slot)
            return
        # The last place stays free: a step that only passes over the slot writes behind what it holds.
        row.length = min(row.length, row.prompt, self._pool.row_tokens - 1)
        row.tokens = row.content.copy()
        self._pool.keep(slot, row.length)

    def _place(self, answer: RunningAnswer, prompt: TokenArray) -> Place | None:
        """A place with enough memory, for which kept tokens are given up, the longest unused first."""
        while True:
            place = choose_place(self.rows, prompt, answer.job.adapter)
            if place is None or self._pool.promise(place.slot, answer.room):
                return place
            kept = [row for row in self.rows if not row.busy and row.length and row.index != place.slot]
            if not kept:
                return None
            victim = min(kept, key=lambda row: (row.index == place.source, row.used_at))
            victim.forget()
            self._pool.empty(victim.index)

    def _copy(self, place: Place) -> None:
        # A few milliseconds, where computing these tokens again would take a thousand times as long.
        for array in self._pool.arrays:
            array[place.slot, :, : place.reused] = array[place.source, :, : place.reused]
        self._counts.copied += place.reused
