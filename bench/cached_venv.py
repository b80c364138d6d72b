"""A virtual environment of its own for each foreign program, built once and kept."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.command import say
from bench.failure import BenchFailed

CONSTRAINTS = Path(__file__).resolve().parents[1] / "packaging" / "constraints.txt"
BUILD_SECONDS = 3600.0
"""Some packages are compiled from their source: a quarter of an hour on one core."""


def cached_venv(folder: Path, requirements: Sequence[str], constraints: Path | None = CONSTRAINTS) -> Path:
    """The Python of a virtual environment at `folder` that has `requirements`; made when it is not there.

    Wheels are kept in `folder`/wheels, so that what was compiled once is not compiled again. Raises
    BenchFailed when the packages cannot be had.
    """
    python, stamp = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join(requirements)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    say(f"installing {', '.join(requirements)} into {folder} (once)")
    _run(sys.executable, "-m", "venv", "--clear", folder)
    wheels = folder / "wheels"
    limits = ("-c", constraints) if constraints is not None else ()
    _run(python, "-m", "pip", "wheel", "-q", "-w", wheels, *limits, *requirements)
    _run(python, "-m", "pip", "install", "-q", "--no-index", "--find-links", wheels, *requirements)
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _run(*arguments: object) -> None:
    words = [str(argument) for argument in arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
    if done.returncode != 0:
        raise BenchFailed(f"{' '.join(words)} gave {done.returncode}:\n{done.stderr[-2000:]}")
