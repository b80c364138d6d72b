"""Which of several exports are worth having: those that no other one beats in everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """One export: bytes in 10^6, decode speed relative to another, perplexity."""

    name: str
    size_mb: float
    decode: float
    perplexity: float

    @property
    def costs(self) -> tuple[float, float, float]:
        """What should be small."""
        return self.size_mb, -self.decode, self.perplexity


def dominates(one: Variant, other: Variant) -> bool:
    """Whether `one` is nowhere worse than `other`, and somewhere better."""
    pairs = list(zip(one.costs, other.costs, strict=True))
    return all(mine <= theirs for mine, theirs in pairs) and any(mine < theirs for mine, theirs in pairs)


def front(variants: Sequence[Variant]) -> list[Variant]:
    """The variants that none of the others dominates, in their order."""
    return [one for one in variants if not any(dominates(other, one) for other in variants)]
