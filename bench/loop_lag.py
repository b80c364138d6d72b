"""`make bench-loop-lag`: how late the device's event loop runs while 128 callers stream at one time."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench.command import BenchOptions, bench_main, say
from bench.contenders import Contender, our_server
from bench.core_pinning import on_cores, other_cores
from bench.exposition import gauges
from bench.failure import BenchFailed
from bench.load_round import play
from bench.paired_rounds import percentile
from bench.questions import question
from bench.table import show

CALLERS = 128
TOKENS = 16
IDLE_S = 3.0
PROBER_START_S = 0.5
LAG_GAUGES = "fedaigc_event_loop_"


def measure(options: BenchOptions) -> dict[str, Any]:
    """Round trips of /health beside the callers and alone, milliseconds. Raises BenchFailed."""
    run = options.fresh_run("loop-lag")
    numbers = itertools.count(1)
    idle: list[float] = []
    busy: list[float] = []
    with our_server(run, options.models, options.model, f"waiting = {CALLERS}") as ours:
        with _probing(ours, idle):
            time.sleep(IDLE_S)
        say(f"{CALLERS} callers")
        texts = [[question(next(numbers)) for _ in range(1 if options.quick else 4)] for _ in range(CALLERS)]
        bodies = [[ours.body(text, TOKENS) for text in mine] for mine in texts]
        with _probing(ours, busy):
            play(ours.port, bodies, ours.headers)
        said = gauges(ours.port, LAG_GAUGES)
    rows = [
        (name, len(trips), percentile(trips, 0.5), percentile(trips, 0.99), max(trips))
        for name, trips in (("idle", idle), (f"{CALLERS} callers", busy))
    ]
    show("Round trips of /health, ms", ("load", "probes", "p50", "p99", "max"), rows)
    return {
        "callers": CALLERS,
        "idle_p99_ms": round(percentile(idle, 0.99), 2),
        "lag_p50_ms": round(percentile(busy, 0.5), 2),
        "lag_p99_ms": round(percentile(busy, 0.99), 2),
        **{name.removeprefix("fedaigc_"): value for name, value in said.items()},
    }


@contextlib.contextmanager
def _probing(ours: Contender, trips: list[float]) -> Iterator[None]:
    """Probe during the block, which runs on the prober's cores; then fill `trips`."""
    with on_cores(other_cores()):
        prober = subprocess.Popen(
            [sys.executable, "-m", "bench.health_prober", str(ours.port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(PROBER_START_S)
        try:
            yield
        finally:
            output, _ = prober.communicate("", timeout=60)
    if prober.returncode != 0:
        raise BenchFailed("the device closed the prober's connection")
    trips += json.loads(output)


if __name__ == "__main__":
    sys.exit(bench_main("bench-loop-lag", measure))
