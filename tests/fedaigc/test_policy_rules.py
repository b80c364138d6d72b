"""Rules compose, fail closed, and see through disguises."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.policy_rules import (
    NO_RULES,
    AllOf,
    AnyOf,
    Denial,
    ForbidPatterns,
    ForbidWords,
    JudgedText,
    RuleSet,
    UnsafeAllowAll,
    folded_text,
    no_rules,
    readable_text,
)

DENIAL = Denial("r1", "high", "test", {"en": "no", "zh": "不行"})
OTHER = Denial("r2", "low", "test", {"en": "neither"})


class Contains:
    """A pattern that is a plain text."""

    def __init__(self, word: str) -> None:
        self.word = word

    def found_in(self, text: str) -> bool:
        return self.word in text


def judge(rule: ForbidWords | ForbidPatterns | AnyOf | AllOf, text: str) -> Denial | None:
    return rule.judge(JudgedText(text))


def test_an_empty_any_of_and_an_empty_all_of_deny() -> None:
    assert judge(AnyOf([]), "harmless") is NO_RULES
    assert judge(AllOf([]), "harmless") is NO_RULES


def test_words_and_patterns_without_any_deny() -> None:
    assert judge(ForbidWords(DENIAL, []), "harmless") is DENIAL
    assert judge(ForbidPatterns(DENIAL, []), "harmless") is DENIAL


def test_any_of_passes_when_one_rule_passes_and_else_gives_the_first_denial() -> None:
    a, b = ForbidWords(DENIAL, ["apple"]), ForbidWords(OTHER, ["pear"])
    assert judge(AnyOf([a, b]), "an apple") is None
    assert judge(AnyOf([a, b]), "apple and pear") is DENIAL


def test_all_of_gives_the_first_denial() -> None:
    a, b = ForbidWords(DENIAL, ["apple"]), ForbidWords(OTHER, ["pear"])
    assert judge(AllOf([a, b]), "plum") is None
    assert judge(AllOf([a, b]), "pear") is OTHER
    assert judge(AllOf([a, b]), "pear and apple") is DENIAL


@pytest.mark.parametrize(
    "disguised",
    [
        "TOP SECRET",
        "Top\u200bSec\u00adret",
        "ｔｏｐ　ｓｅｃｒｅｔ",
        "top\n \t secret",
        "\u202etop sec\u2066ret",
        "t\ufe0fo\U000e0100p se\U000e0063cret",
        "𝐭𝐨𝐩 𝕤𝕖𝕔𝕣𝕖𝕥",
    ],
)
def test_a_word_is_found_in_any_disguise(disguised: str) -> None:
    words = ForbidWords(DENIAL, ["top secret", "topsecret"])
    assert judge(words, f"this is {disguised}, really") is DENIAL


def test_case_folding_is_unicodes_not_asciis() -> None:
    assert judge(ForbidWords(DENIAL, ["STRASSE"]), "straße") is DENIAL
    assert judge(ForbidWords(DENIAL, ["绝密"]), "這是絕密與绝\u200b密") is DENIAL


def test_patterns_see_the_text_as_sent_and_as_read() -> None:
    assert judge(ForbidPatterns(DENIAL, [Contains("123-45")]), "１２３-４５") is DENIAL
    assert judge(ForbidPatterns(DENIAL, [Contains("\u200b")]), "a\u200bb") is DENIAL
    assert judge(ForbidPatterns(DENIAL, [Contains("x")]), "abc") is None


@given(st.text())
def test_folding_is_stable_and_leaves_nothing_invisible(text: str) -> None:
    folded = folded_text(text)
    assert folded_text(folded) == folded
    assert not set(readable_text(text)) & set("\u200b\u200c\u200d\u2060\ufeff\u00ad")


def test_what_cannot_be_seen_is_removed_whatever_block_it_is_from() -> None:
    # Arabic, Kaithi and hieroglyphic signs are of the same category but are drawn.
    drawn = {*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD}
    drawn |= set(range(0x13430, 0x13440))
    format_characters = (code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf")
    for code in set(format_characters) - drawn:
        assert readable_text(f"a{chr(code)}b") == "ab", hex(code)


@given(st.text(), st.text(min_size=1), st.text())
def test_a_text_that_holds_a_forbidden_word_is_denied(before: str, word: str, after: str) -> None:
    if folded_text(word):
        text = f"{before} {word} {after}"
        # A combining mark at a border can join a neighbour: then it is another word, also for a reader.
        if folded_text(word) in folded_text(text):
            assert judge(ForbidWords(DENIAL, [word]), text) is DENIAL


def test_the_version_is_that_of_the_description() -> None:
    one = RuleSet.described(UnsafeAllowAll(), {"a": 1, "b": 2})
    same = RuleSet.described(UnsafeAllowAll(), {"b": 2, "a": 1})
    other = RuleSet.described(UnsafeAllowAll(), {"a": 1, "b": 3})
    assert one.version == same.version != other.version
    assert len(one.version) == 64
    assert no_rules().judge(["anything"]) is None


def test_a_rule_set_judges_every_text() -> None:
    rules = RuleSet.described(ForbidWords(DENIAL, ["apple"]), {})
    assert rules.judge(["plum", "pear"]) is None
    assert rules.judge(["plum", "an APPLE"]) is DENIAL


def test_a_denial_speaks_the_callers_language_or_english() -> None:
    assert (DENIAL.told_in("zh"), DENIAL.told_in("en"), OTHER.told_in("zh")) == ("不行", "no", "neither")


def test_a_judged_text_never_shows_itself() -> None:
    assert "secret" not in repr(JudgedText("secret words"))
