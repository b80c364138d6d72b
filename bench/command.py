"""What every benchmark's command line has in common: its options, how it fails, and its last line."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from bench.failure import BenchFailed
from tests.daemons import StoryFailed

BUSY_LOAD = 0.7
"""Running processes on average, above which others disturb the measurement."""


@dataclass(frozen=True)
class BenchOptions:
    """Where the model is, where things are kept, and how much is measured."""

    models: Path
    model: str
    bench: Path
    quick: bool

    @property
    def model_root(self) -> Path:
        """The exported model's folder."""
        return self.models / self.model

    def fresh_run(self, name: str) -> Path:
        """An empty folder for the processes of one benchmark."""
        run = self.bench / "run" / name
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir(parents=True)
        return run


def bench_main(name: str, measure: Callable[[BenchOptions], Mapping[str, Any]]) -> int:
    """Measure and print one JSON object as the last line.

    Returns 1, and says why on standard error, when it fails or when a figure is None: not measured.
    """
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--models", type=Path, required=True, help="where the exported model is")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--bench", type=Path, default=Path(".bench"), help="what is built once and kept")
    parser.add_argument("--quick", action="store_true", help="measure less; under four minutes")
    given = parser.parse_args()
    # The servers that it started must end with it, so a stop has to unwind.
    signal.signal(signal.SIGTERM, _stop)
    given.bench.mkdir(exist_ok=True)
    if os.getloadavg()[0] > BUSY_LOAD:
        say(f"the machine is busy (load {os.getloadavg()[0]:.1f}): even ratios mean little")
    options = BenchOptions(given.models.resolve(), given.model, given.bench.resolve(), given.quick)
    try:
        figures = measure(options)
    except (BenchFailed, StoryFailed) as error:
        print(f"{name} failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name} was interrupted; every process was stopped.", file=sys.stderr)
        return 130
    missing = sorted(key for key, value in figures.items() if value is None)
    if missing:
        print(f"{name}: not measured: {', '.join(missing)}", file=sys.stderr)
    print(json.dumps(figures), flush=True)
    return 1 if missing else 0


def say(text: str) -> None:
    """Tell on standard error what is going on."""
    print(f"==> {text}", file=sys.stderr, flush=True)


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt
