"""Keep everything that is measured together on one core, and what is not on the others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def bench_core() -> int:
    """The core that measured processes share: the last one that this process may use."""
    return max(os.sched_getaffinity(0))


def other_cores() -> set[int]:
    """The cores left for what is not measured; the bench core itself where there is only one."""
    cores = os.sched_getaffinity(0)
    return cores - {max(cores)} or cores


@contextlib.contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """Run the block, and every process started in it, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
