"""Questions that differ and are about equally long, so that none is answered from an earlier one."""

from __future__ import annotations

import random

_WHO = ("a lighthouse keeper", "a baker", "an astronomer", "a ferry captain", "a violin maker", "a gardener")
_WHERE = ("on a small island", "in an old harbour town", "high in the mountains", "at the edge of a desert")
_WHAT = ("finds a letter", "repairs a clock", "learns a new song", "meets a stranger", "loses a map")
_WORDS = (
    "river", "stone", "winter", "garden", "music", "paper", "silver", "window", "mountain",
    "letter", "morning", "shadow", "market", "bridge", "forest", "engine", "island", "summer",
    "kitchen", "pattern", "season", "travel",
)  # fmt: skip


def question(number: int) -> str:
    """The question of this number, about 30 tokens; another number differs from its first words on."""
    who, where, what = _WHO[number % 6], _WHERE[number // 6 % 4], _WHAT[number // 24 % 5]
    return f"Tale {number}: write a long and detailed story about {who} {where} who {what}."


def words(count: int, seed: int) -> str:
    """`count` common words in random order: about one token each."""
    return " ".join(random.Random(seed).choices(_WORDS, k=count))
