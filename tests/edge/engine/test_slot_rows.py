from __future__ import annotations

import numpy as np

from fedaigc_edge.engine.slot_rows import LEAST_COPY, Place, SlotRow, choose_place


def _rows(*contents: tuple[list[int], bool, str | None]) -> list[SlotRow]:
    rows = []
    for index, (tokens, busy, adapter) in enumerate(contents):
        row = SlotRow(index)
        row.begin(np.array(tokens, np.int64), len(tokens), max(len(tokens), 1), adapter, index + 1)
        row.busy = busy
        rows.append(row)
    return rows


def _prompt(*tokens: int) -> np.ndarray:
    return np.array(tokens, np.int64)


EMPTY: tuple[list[int], bool, str | None] = ([], False, None)


def test_no_free_slot_is_no_place() -> None:
    assert choose_place(_rows(([1], True, None)), _prompt(1, 2), None) is None


def test_the_slot_with_the_longest_common_beginning_is_taken() -> None:
    rows = _rows(([1, 2, 9], False, None), ([1, 2, 3, 4], False, None), EMPTY)
    assert choose_place(rows, _prompt(1, 2, 3, 4, 5, 6), None) == Place(1, 4, 1)


def test_the_last_two_tokens_are_always_computed() -> None:
    rows = _rows(([1, 2, 3, 4], False, None))
    assert choose_place(rows, _prompt(1, 2, 3, 4), None) == Place(0, 2, 0)
    assert choose_place(rows, _prompt(1), None) == Place(0, 0, 0)


def test_an_answer_that_was_written_is_not_reused() -> None:
    rows = _rows(([1, 2, 3, 4, 5, 6], False, None))
    rows[0].prompt = 3
    assert choose_place(rows, _prompt(1, 2, 3, 4, 5, 6, 7), None) == Place(0, 3, 0)


def test_what_another_adapter_computed_is_worth_nothing() -> None:
    rows = _rows(([1, 2, 3], False, "a"), EMPTY)
    place = choose_place(rows, _prompt(1, 2, 3, 4), "b")
    assert place is not None
    assert place.reused == 0


def test_a_short_beginning_in_a_busy_slot_is_not_copied_and_a_long_one_is() -> None:
    short, long = list(range(LEAST_COPY - 1)), list(range(LEAST_COPY + 1))
    for shared, reused, source in ((short, 0, 1), (long, len(long), 0)):
        rows = _rows((shared, True, None), EMPTY)
        assert choose_place(rows, _prompt(*shared, 98, 99), None) == Place(1, reused, source)


def test_slots_stay_together_even_if_what_is_there_must_be_copied() -> None:
    shared = list(range(50))
    rows = _rows(([7], True, None), EMPTY, EMPTY, EMPTY, (shared, False, None))
    assert choose_place(rows, _prompt(*shared, 98, 99), None) == Place(1, 50, 4)


def test_without_anything_in_common_the_longest_unused_slot_is_overwritten() -> None:
    rows = _rows(([1], False, None), ([2], False, None))
    rows[0].used_at = 10
    assert choose_place(rows, _prompt(5, 6), None) == Place(1, 0, 1)
