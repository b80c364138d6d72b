"""`make bench-serving`: our server with everything on beside llama.cpp's, on one core, in interleaved rounds.

Ends with exit code 1 when something could not be measured, and says what.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.adapter_cost import adapter_cost
from bench.command import BenchOptions, bench_main, say
from bench.contenders import Contender, context_length, end_tokens, llama_server, our_server
from bench.llama import Llama, shipped_gguf
from bench.paired_rounds import Load, Played, percentile, play_rounds, ratio
from bench.quality import Quality
from bench.table import show

OURS, Q41, Q40 = "fedaigc", "llama q4_1", "llama q4_0"
GENERATION = frozenset({"queue", "tokenise", "prefill", "decode", "total"})
"""Stages of a request's timings that are not governance; `total` is their sum."""
TOKENS = 64


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    loads: tuple[Load, ...]
    short: Load
    """Short answers, one after the other, for the cost of governance."""
    windows: int
    adapter_rounds: int


FULL = Size((Load(1, 5, 9, TOKENS), Load(4, 3, 7, TOKENS), Load(16, 3, 3, TOKENS)), Load(1, 200, 1, 8), 4, 15)
QUICK = Size((Load(1, 3, 5, TOKENS), Load(4, 2, 3, TOKENS), Load(16, 2, 1, TOKENS)), Load(1, 120, 1, 8), 2, 7)


def measure(options: BenchOptions) -> dict[str, float | None]:
    """Every figure of the last line; None where the product cannot be asked yet. Raises BenchFailed."""
    size = QUICK if options.quick else FULL
    llama = Llama.ready(options.bench)
    gguf = shipped_gguf(options.model_root)
    numbers = itertools.count(1)
    run = options.fresh_run("serving")
    with _contenders(llama, options, gguf, run) as contenders:
        play_rounds(contenders, Load(1, 1, 1, 8), numbers)
        played = {load.callers: play_rounds(contenders, load, numbers) for load in size.loads}
        ours = [one for one in contenders if one.name == OURS]
        short = play_rounds(ours, size.short, numbers)
        memory = [(one.name, one.rss_mb()) for one in contenders]
    for load in size.loads:
        _show(load, played[load.callers])
    show("Memory after the run", ("server", "RSS MB"), memory)
    governed = _governance_ms([short, played[1]])
    costs = adapter_cost(options.models, options.model, run, size.adapter_rounds)
    show("What an active adapter takes of decode", ("answers at one time", "share"), list(costs.items()))
    quality = Quality(options.model_root, options.bench, size.windows)
    figures = {
        "c1_vs_q41": ratio(played[1], OURS, Q41),
        "c1_vs_q40": ratio(played[1], OURS, Q40),
        "c4_vs_q41": ratio(played[4], OURS, Q41),
        "c4_vs_q40": ratio(played[4], OURS, Q40),
        "c4_ttft_s": statistics.median(_ttfts(played[4], OURS)),
        "c16_fairness": statistics.median(one.fairness for one in played[16][OURS]),
        "adapter_cost": costs[1],
        "governance_ms_p50": percentile(governed, 0.5) if governed else None,
        "governance_ms_p99": percentile(governed, 0.99) if governed else None,
        "ppl_ours": quality.ours(),
        "ppl_q41": quality.llama(llama, gguf),
        "ppl_q40": quality.llama(llama, llama.q40(gguf)),
    }
    return {name: None if value is None else round(value, 4) for name, value in figures.items()}


@contextlib.contextmanager
def _contenders(
    llama: Llama, options: BenchOptions, gguf: Path, run: Path
) -> Iterator[tuple[Contender, ...]]:
    context, ends = context_length(options.model_root), end_tokens(options.model_root)
    say("starting a datacenter, our device and two llama.cpp servers")
    with (
        our_server(run, options.models, options.model) as ours,
        llama_server(llama, Q41, gguf, run, context, ends) as q41,
        llama_server(llama, Q40, llama.q40(gguf), run, context, ends) as q40,
    ):
        yield ours, q41, q40


def _show(load: Load, played: Played) -> None:
    rows = [_row(name, played) for name in played]
    show(
        f"{load.callers} caller{'s' * (load.callers > 1)}, answers of {load.tokens} tokens, "
        f"{load.rounds} rounds of {load.callers * load.questions}",
        ("server", "tok/s", "min", "max", "TTFT p50 s", "p95 s", "TPOT ms", "max/min caller", "ours/this"),
        rows,
    )


def _row(name: str, played: Played) -> Sequence[object]:
    rates = [one.rate for one in played[name]]
    ttfts = _ttfts(played, name)
    return (
        name, statistics.median(rates), min(rates), max(rates), statistics.median(ttfts),
        percentile(ttfts, 0.95), statistics.median(one.tpot_ms for one in played[name]),
        statistics.median(one.fairness for one in played[name]), ratio(played, OURS, name),
    )  # fmt: skip


def _ttfts(played: Played, name: str) -> list[float]:
    return [seconds for one in played[name] for seconds in one.ttfts_s]


def _governance_ms(everything: Sequence[Played]) -> list[float]:
    """What each request spent on everything but its generation, by the server's own account."""
    answers = [heard for played in everything for one in played[OURS] for heard in one.answers]
    timed = [heard.timings_ms for heard in answers if heard.timings_ms]
    stages = sorted({stage for timings in timed for stage in timings})
    if timed:
        rows = [_stage_row(stage, [float(timings.get(stage, 0.0)) for timings in timed]) for stage in stages]
        show(f"Where the time of {len(timed)} requests went, ms", ("stage", "p50", "p99"), rows)
    return [sum(ms for stage, ms in timings.items() if stage not in GENERATION) for timings in timed]


def _stage_row(stage: str, values: Sequence[float]) -> tuple[Any, ...]:
    return stage, percentile(values, 0.5), percentile(values, 0.99)


if __name__ == "__main__":
    sys.exit(bench_main("bench-serving", measure))
