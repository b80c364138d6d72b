from __future__ import annotations

import doctest

import pytest

from fedaigc_edge.engine import regex_size
from fedaigc_edge.engine.regex_size import repetitions


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", 1),
        ("abc*", 1),
        ("a{0}", 1),
        ("[0-9]{4}-[0-9]{2}", 4),
        ("(a{10}b{20}){3,5}c{7}", 100),
        ("((a{10}){10}){10}", 1_000),
        ("a{10}{20}", 200),
        ("(a{10}|b)c{3}", 10),
        (r"\(a{10}\){20}", 20),
        ("[(]a{10}[)]{20}", 20),
        (r"[\]{50}]a{2}", 2),
        ("[]{50}]a{2}", 2),
        ("(a{100}", 100),
        ("a{100})){2}", 200),
        ("a{7,}", 7),
        ("{a} {,5}", 1),
        ("(?:x{30}\n){40}", 1_200),
    ],
)
def test_counts_inside_one_another_multiply(pattern: str, expected: int) -> None:
    assert repetitions(pattern) == expected


def test_a_count_of_any_length_is_only_large() -> None:
    assert repetitions("a{" + "9" * 20_000 + "}") >= 10**9


def test_the_examples_are_true() -> None:
    assert doctest.testmod(regex_size).failed == 0
