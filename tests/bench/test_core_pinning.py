"""What is measured together shares a core."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.core_pinning import bench_core, on_cores, other_cores


def test_processes_started_in_the_block_inherit_its_core_and_the_block_gives_back() -> None:
    before = os.sched_getaffinity(0)
    with on_cores({bench_core()}):
        child = subprocess.run(
            [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert child.stdout.strip() == str({bench_core()})
    assert os.sched_getaffinity(0) == before


def test_the_bench_core_is_left_alone_where_there_are_others() -> None:
    cores = os.sched_getaffinity(0)
    assert other_cores() <= cores
    assert (bench_core() in other_cores()) == (len(cores) == 1)
