"""`make bench-sweep`: prompts of 64 to 4096 tokens, and what memory the longest of many take."""

from __future__ import annotations

import statistics
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.command import BenchOptions, bench_main, say
from bench.contenders import Contender, our_server
from bench.core_pinning import bench_core, on_cores
from bench.exposition import gauges
from bench.load_round import LoadRound, play
from bench.questions import words
from bench.stream_caller import Heard
from bench.table import show

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
"""Prompt tokens, the chat template's included."""
TOKENS = 32
TEMPLATE_TOKENS = 32
"""About what the chat template adds; the tables show the true counts."""
MEMORY_PROMPT, MEMORY_SLOTS = 2048, 8
SAMPLE_S = 0.1
ENGINE = "fedaigc_engine_"


@dataclass(frozen=True)
class Point:
    """One prompt length: true tokens, seconds to the first token, tokens a second before and after it."""

    prompt: int
    ttft_s: float
    prefill: float
    decode: float


def measure(options: BenchOptions) -> dict[str, Any]:
    """Prefill and decode by prompt length, the worst step off a smooth curve, memory. Raises BenchFailed."""
    run = options.fresh_run("sweep")
    with our_server(run / "speed", options.models, options.model) as ours:
        points = _sweep(ours, 1 if options.quick else 5)
    with our_server(run / "memory", options.models, options.model, f"slots = {MEMORY_SLOTS}") as ours:
        started_mb = ours.rss_mb()
        one = _memory(ours, 1)
        every = _memory(ours, MEMORY_SLOTS)
    rows = [(point.prompt, point.ttft_s, point.prefill, point.decode) for point in points]
    show("One caller", ("prompt tokens", "TTFT s", "prefill tok/s", "decode tok/s"), rows)
    show(
        f"Memory with {MEMORY_SLOTS} slots, 10^6 bytes; answers of {TOKENS} tokens",
        (f"prompts of {MEMORY_PROMPT} tokens at one time", "RSS", "peak RSS", "KV promised", "KV held"),
        [(0, started_mb, started_mb, 0.0, 0.0), (1, *one), (MEMORY_SLOTS, *every)],
    )
    return {
        "prompt_tokens": [point.prompt for point in points],
        "prefill_tok_s": [round(point.prefill, 1) for point in points],
        "decode_tok_s": [round(point.decode, 1) for point in points],
        "worst_ttft_vs_fit": round(worst_step(points), 3),
        **_named("one", one),
        **_named("all_slots", every),
    }


def worst_step(points: Sequence[Point]) -> float:
    """The largest ratio of a measured time to first token to the fitted a + b n + c n^2; 1 has no cliff.

    A prompt costs a matrix product for each token (b) and attention to all tokens before it (c).
    """
    lengths = np.array([point.prompt for point in points], np.float64) / 1000
    seconds = np.array([point.ttft_s for point in points])
    # Relative errors: else the longest prompt alone would decide the curve.
    terms = np.stack([np.ones_like(lengths), lengths, lengths**2], axis=1) / seconds[:, None]
    fitted, *_ = np.linalg.lstsq(terms, np.ones_like(seconds), rcond=None)
    return float(np.max(1 / (terms @ fitted)))


def _sweep(ours: Contender, repeats: int) -> list[Point]:
    heard: dict[int, list[Heard]] = defaultdict(list)
    for repeat in range(repeats):
        say(f"sweep {repeat + 1} of {repeats}")
        for length in LENGTHS:
            (answer,) = _ask(ours, length, 1, seed=repeat).answers
            heard[length].append(answer)
    return [_point(heard[length]) for length in LENGTHS]


def _point(answers: Sequence[Heard]) -> Point:
    prompt = int(answers[0].usage["prompt_tokens"])
    ttft = statistics.median(heard.ttft_s for heard in answers)
    decode = statistics.median((TOKENS - 1) / (heard.last - heard.first) for heard in answers)
    return Point(prompt, ttft, prompt / ttft, decode)


def _ask(ours: Contender, length: int, callers: int, seed: int) -> LoadRound:
    texts = [
        words(length - TEMPLATE_TOKENS, 1000 * length + 100 * seed + number) for number in range(callers)
    ]
    with on_cores({bench_core()}):
        return play(ours.port, [[ours.body(text, TOKENS)] for text in texts], ours.headers)


@dataclass(frozen=True)
class Memory:
    """10^6 bytes: of the process after the load and at its peak; the most KV bytes promised and held."""

    rss: float
    peak_rss: float
    kv_promised: float
    kv_held: float

    def __iter__(self) -> Iterator[float]:
        return iter((self.rss, self.peak_rss, self.kv_promised, self.kv_held))


def _named(what: str, memory: Memory) -> dict[str, float]:
    return {f"{what}_{name}_mb": round(value, 1) for name, value in vars(memory).items()}


def _memory(ours: Contender, callers: int) -> Memory:
    say(f"memory: {callers} prompts of {MEMORY_PROMPT} tokens at one time")
    promised, held = [0.0], [0.0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_S):
            said = gauges(ours.port, ENGINE)
            promised.append(said[f"{ENGINE}kv_promised_bytes"] / 1e6)
            held.append(said[f"{ENGINE}kv_held_bytes"] / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        _ask(ours, MEMORY_PROMPT, callers, seed=99)
    finally:
        ended.set()
        watcher.join()
    status = Path(f"/proc/{ours.process}/status").read_text(encoding="ascii")
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return Memory(ours.rss_mb(), int(peak) * 1024 / 1e6, max(promised), max(held))


if __name__ == "__main__":
    sys.exit(bench_main("bench-sweep", measure))
