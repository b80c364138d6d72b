"""Callers that ask one question after another, all at once, and what they saw together."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.failure import BenchFailed
from bench.stream_caller import Heard, ask


@dataclass(frozen=True)
class LoadRound:
    """What the callers of one round saw. Every answer has `tokens` tokens."""

    callers: tuple[tuple[Heard, ...], ...]
    tokens: int

    @property
    def answers(self) -> list[Heard]:
        """Every answer of every caller."""
        return [heard for caller in self.callers for heard in caller]

    @property
    def rate(self) -> float:
        """Completion tokens a second of all callers together, prompts included in the time."""
        begun = min(heard.started for heard in self.answers)
        ended = max(heard.ended for heard in self.answers)
        return self.tokens * len(self.answers) / (ended - begun)

    @property
    def fairness(self) -> float:
        """The luckiest caller's tokens a second over the unluckiest's; 1 is perfectly fair."""
        rates = [
            self.tokens * len(caller) / (caller[-1].ended - caller[0].started) for caller in self.callers
        ]
        return max(rates) / min(rates)

    @property
    def ttfts_s(self) -> list[float]:
        """Each answer's time to first token, seconds."""
        return [heard.ttft_s for heard in self.answers]

    @property
    def tpot_ms(self) -> float:
        """Median milliseconds between an answer's tokens."""
        return statistics.median(
            (heard.last - heard.first) * 1e3 / (self.tokens - 1) for heard in self.answers
        )


def play(
    port: int, bodies: Sequence[Sequence[Mapping[str, Any]]], headers: Mapping[str, str] | None = None
) -> LoadRound:
    """Let one caller for each list of `bodies` ask them in turn, all callers at the same time.

    Raises BenchFailed when an answer is refused, cut, or has not exactly the length that was asked for.
    """
    tokens = int(bodies[0][0]["max_tokens"])

    async def caller(mine: Sequence[Mapping[str, Any]]) -> tuple[Heard, ...]:
        return tuple([await ask(port, body, headers) for body in mine])

    async def everybody() -> LoadRound:
        return LoadRound(tuple(await asyncio.gather(*map(caller, bodies))), tokens)

    played = asyncio.run(everybody())
    for heard in played.answers:
        _check_length(heard, tokens)
    return played


def _check_length(heard: Heard, tokens: int) -> None:
    made = heard.usage.get("completion_tokens", tokens)
    # A character of several tokens comes as one event, so events alone do not count tokens.
    if heard.finish != "length" or made != tokens or not 1 <= heard.chunks <= tokens:
        raise BenchFailed(
            f"an answer has not the {tokens} tokens that were asked for: finish {heard.finish}, "
            f"{made} tokens, {heard.chunks} events"
        )
