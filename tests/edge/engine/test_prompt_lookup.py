from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc_edge.engine.prompt_lookup import PromptLookup

TEXTS = st.lists(st.integers(0, 3), max_size=60)


def brute_force(tokens: list[int], length: int) -> list[int]:
    """What the definition says: scan back for the longest suffix, then copy, the copy itself included."""
    for n in (4, 3, 2):
        suffix = tokens[-n:]
        for start in range(len(tokens) - 1, n - 1, -1):
            if len(suffix) == n and tokens[start - n : start] == suffix:
                text = list(tokens)
                for place in range(length):
                    text.append(text[start + place])
                return text[len(tokens) :]
    return []


@given(TEXTS, TEXTS, st.integers(0, 9))
def test_a_proposal_is_what_followed_the_latest_longest_match(
    prompt: list[int], answer: list[int], length: int
) -> None:
    lookup = PromptLookup(prompt)
    for number, token in enumerate(answer):
        if number % 3 == 0:
            lookup.propose(2)
        lookup.append(token)
    assert lookup.propose(length) == (brute_force(prompt + answer, length) if length else [])
    assert len(lookup) == len(prompt + answer)


def test_a_longer_match_wins_over_a_later_shorter_one() -> None:
    assert PromptLookup([1, 2, 3, 4, 50, 51, 9, 3, 4, 60, 1, 2, 3, 4]).propose(2) == [50, 51]


def test_among_equal_matches_the_latest_wins() -> None:
    assert PromptLookup([1, 2, 50, 1, 2, 60, 1, 2]).propose(1) == [60]


def test_a_text_never_finds_its_own_end() -> None:
    assert PromptLookup([1, 2, 3, 4, 5, 6]).propose(4) == []
    assert PromptLookup([7, 7]).propose(4) == []


def test_a_short_period_goes_on_past_the_end_of_the_text() -> None:
    assert PromptLookup([1, 2, 3, 1, 2, 3]).propose(6) == [1, 2, 3, 1, 2, 3]
    assert PromptLookup([5, 5, 5]).propose(4) == [5, 5, 5, 5]


@pytest.mark.parametrize("prompt", [[], [1], [1, 2]])
def test_too_short_a_text_proposes_nothing(prompt: list[int]) -> None:
    assert PromptLookup(prompt).propose(4) == []


def test_numbers_of_any_vocabulary_are_told_apart() -> None:
    large = 2**32 - 1
    assert PromptLookup([large, 0, 8, 0, large, 9, large, 0]).propose(1) == [8]
    assert PromptLookup([0, 1, 2, 7, 1, 2, 8, 0, 1, 2]).propose(1) == [7]


def test_the_index_forgets_what_is_older_than_its_window() -> None:
    dice = random.Random(4)
    lookup = PromptLookup([1, 2, 3, 4, 99], window=100)
    for _ in range(5000):
        lookup.append(dice.randrange(1000, 50_000))
        lookup.propose(1)
    assert lookup.remembered <= 3 * 100
    for token in (1, 2, 3, 4):
        lookup.append(token)
    assert lookup.propose(1) == []


@given(TEXTS, st.integers(1, 20))
def test_a_window_only_hides_what_is_older(tokens: list[int], window: int) -> None:
    lookup = PromptLookup(tokens, window)
    proposed = lookup.propose(3)
    assert proposed in ([], brute_force(tokens, 3)) or proposed == brute_force(tokens[-window - 4 :], 3)
