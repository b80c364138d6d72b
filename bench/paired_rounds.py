"""Rounds in which every contender answers the same questions, one contender after the other."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.command import say
from bench.contenders import Contender, alone
from bench.core_pinning import bench_core, on_cores
from bench.load_round import LoadRound, play
from bench.questions import question


@dataclass(frozen=True)
class Load:
    """How many callers ask, how many questions each in a round, how many rounds, how long the answers are."""

    callers: int
    questions: int
    rounds: int
    tokens: int


Played = Mapping[str, Sequence[LoadRound]]
"""Contender's name -> its rounds, in the order in which they were played; equal places are pairs."""


def play_rounds(contenders: Sequence[Contender], load: Load, numbers: Iterator[int]) -> Played:
    """Play `load`, with the callers on the servers' core and the order of the contenders turning.

    `numbers` gives the numbers of fresh questions. Raises BenchFailed.
    """
    played: dict[str, list[LoadRound]] = {one.name: [] for one in contenders}
    for turn in range(load.rounds):
        say(f"round {turn + 1} of {load.rounds}, callers at one time: {load.callers}")
        asked = [
            [question(number) for number in itertools.islice(numbers, load.questions)]
            for _ in range(load.callers)
        ]
        for place in range(len(contenders)):
            one = contenders[(turn + place) % len(contenders)]
            bodies = [[one.body(text, load.tokens) for text in mine] for mine in asked]
            with alone(one, contenders), on_cores({bench_core()}):
                played[one.name].append(play(one.port, bodies, one.headers))
    return played


def ratio(played: Played, ours: str, theirs: str) -> float:
    """Our tokens a second over theirs: the median of the rounds' own ratios."""
    pairs = zip(played[ours], played[theirs], strict=True)
    return statistics.median(mine.rate / other.rate for mine, other in pairs)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
