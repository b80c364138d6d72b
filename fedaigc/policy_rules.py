"""Small composable rules that read a text and either let it pass or deny it with a reason.

The composites fail closed: `AnyOf` and `AllOf` over nothing deny everything. The only rule that lets
everything through is called `UnsafeAllowAll`, so that nobody installs it by accident.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

from fedaigc.canonical import Json, canonical_bytes
from fedaigc.fingerprint import blob_digest

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")

# Unicode's Default_Ignorable_Code_Point: what a reader does not see but a comparison does (zero-width, bidi
# and other format characters, variation selectors, fillers, tags).
_INVISIBLE_RANGES = (
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5)),
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3)),
    *((0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
_INVISIBLE = re.compile(f"[{''.join(f'{chr(a)}-{chr(z)}' for a, z in _INVISIBLE_RANGES)}]+")


def readable_text(text: str) -> str:
    """What a reader sees: no invisible characters, compatibility forms (full width, ligatures) made plain."""
    return text if text.isascii() else unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))


def folded_text(text: str) -> str:
    """`readable_text` without case, and with every run of white space as one space."""
    folded = unicodedata.normalize("NFKC", readable_text(text).casefold())
    return " ".join(folded.split())


@dataclass(frozen=True)
class JudgedText:
    """One text in the three forms that rules look at, each made at most once; `repr` shows none."""

    raw: str

    def __repr__(self) -> str:
        """The length only."""
        return f"JudgedText({len(self.raw)} characters)"

    @cached_property
    def readable(self) -> str:
        """See `readable_text`."""
        return readable_text(self.raw)

    @cached_property
    def folded(self) -> str:
        """See `folded_text`."""
        return folded_text(self.raw)


@dataclass(frozen=True)
class Denial:
    """The gate's no: which rule, how grave, and what the caller is told in English and in Chinese."""

    rule: str
    severity: Severity
    category: str
    message: Mapping[str, str]

    def told_in(self, language: str) -> str:
        """The message in `language`, in English when there is none."""
        return self.message.get(language) or self.message["en"]


class Rule(Protocol):
    """One gate condition."""

    def judge(self, text: JudgedText) -> Denial | None:
        """None lets the text pass."""
        ...


class TextPattern(Protocol):
    """A compiled pattern whose search takes time linear in the text."""

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in `text`."""
        ...


NO_RULES = Denial(
    "gate-without-rules",
    "critical",
    "gate",
    {"en": "The gate has no rules, so it lets nothing through", "zh": "策略网关没有规则，因此拒绝所有请求"},
)
"""What an empty composite answers."""


class ForbidWords:
    """Deny a text that contains one of `words`, however it is cased, spaced, widened or padded invisibly."""

    def __init__(self, denial: Denial, words: Iterable[str]) -> None:
        self._denial = denial
        self._words = tuple(sorted({folded_text(word) for word in words}))

    def judge(self, text: JudgedText) -> Denial | None:
        """See Rule; no word at all, or an empty one, denies everything."""
        if not self._words or any(word in text.folded for word in self._words):
            return self._denial
        return None


class ForbidPatterns:
    """Deny a text in which one of `patterns` matches, as it was sent or as a reader sees it."""

    def __init__(self, denial: Denial, patterns: Iterable[TextPattern]) -> None:
        self._denial = denial
        self._patterns = tuple(patterns)

    def judge(self, text: JudgedText) -> Denial | None:
        """See Rule; no pattern at all denies everything."""
        forms = (text.raw,) if text.readable == text.raw else (text.raw, text.readable)
        if not self._patterns or any(p.found_in(form) for p in self._patterns for form in forms):
            return self._denial
        return None


class AnyOf:
    """Let pass what at least one rule lets pass; otherwise the first denial. Over nothing: deny."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)

    def judge(self, text: JudgedText) -> Denial | None:
        """See Rule."""
        denials = []
        for rule in self._rules:
            denial = rule.judge(text)
            if denial is None:
                return None
            denials.append(denial)
        return denials[0] if denials else NO_RULES


class AllOf:
    """Let pass what every rule lets pass; otherwise the first denial. Over nothing: deny."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)

    def judge(self, text: JudgedText) -> Denial | None:
        """See Rule."""
        if not self._rules:
            return NO_RULES
        return next((denial for rule in self._rules if (denial := rule.judge(text)) is not None), None)


class UnsafeAllowAll:
    """Let everything pass. For a device without a rule file; whoever installs it must say so in the log."""

    def judge(self, text: JudgedText) -> Denial | None:
        """Never a denial."""
        return None


@dataclass(frozen=True)
class RuleSet:
    """The rules in force and their version: BLAKE3, hexadecimal, over their canonical description."""

    rule: Rule
    version: str

    @classmethod
    def described(cls, rule: Rule, description: Json) -> RuleSet:
        """`rule` under the version of `description`, the JSON value that it was built from."""
        return cls(rule, blob_digest(canonical_bytes(description)))

    def judge(self, texts: Iterable[str]) -> Denial | None:
        """The first denial over all `texts`, None when all pass."""
        judged = (self.rule.judge(JudgedText(text)) for text in texts)
        return next((denial for denial in judged if denial is not None), None)


def no_rules() -> RuleSet:
    """The rule set of a device without a rule file: everything passes, and is recorded under this version."""
    return RuleSet.described(UnsafeAllowAll(), {"v": 1, "rules": []})
