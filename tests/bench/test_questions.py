"""No question can be answered from an earlier one, and all cost about the same."""

from __future__ import annotations

from bench.questions import question, words


def test_questions_differ_from_their_first_words_on() -> None:
    asked = [question(number) for number in range(2000)]
    assert len({text.split(":")[0] for text in asked}) == len(asked)


def test_questions_are_about_equally_long() -> None:
    lengths = [len(question(number).split()) for number in range(200)]
    assert max(lengths) - min(lengths) <= 5


def test_words_are_as_many_as_asked_for_and_come_again() -> None:
    assert len(words(500, 3).split()) == 500
    assert words(500, 3) == words(500, 3) != words(500, 4)
