"""Patterns take linear time and say what is wrong with them."""

from __future__ import annotations

import time

import pytest

from fedaigc_edge.serve.linear_pattern import LinearPattern, PatternRefused


def test_a_pattern_that_ruins_backtracking_stays_quick() -> None:
    pattern = LinearPattern("^(a+)+$")
    started = time.perf_counter()
    assert not pattern.found_in("a" * 100_000 + "b")
    assert time.perf_counter() - started < 1


def test_chinese_and_case_are_matched() -> None:
    assert LinearPattern("(?i)geheim|绝密").found_in("这是绝密文件")
    assert LinearPattern("(?i)geheim|绝密").found_in("GEHEIM")


@pytest.mark.parametrize("source", ["(a", "(?=a)b", r"(a)\1", "a{5000}", "[z-a]", "\ud800"])
def test_what_re2_cannot_do_is_refused_without_noise(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PatternRefused) as caught:
        LinearPattern(source)
    assert caught.value.what
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("source", ["", "a*", "|b", r"\d*"])
def test_a_pattern_that_matches_everything_is_refused(source: str) -> None:
    with pytest.raises(PatternRefused, match="empty text"):
        LinearPattern(source)


def test_a_pattern_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises(PatternRefused):
        LinearPattern(r"((\pL{1,100}){1,100}){1,100}")
