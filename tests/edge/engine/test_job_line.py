from __future__ import annotations

import threading

import pytest

from fedaigc.errors import Busy, Unavailable
from fedaigc_edge.engine.job_line import JobLine


def test_first_come_first_served() -> None:
    line: JobLine[int] = JobLine(slots=1, waiting=10)
    line.enter([1, 2])
    line.enter([3])
    seen = []
    while (job := line.first()) is not None:
        seen.append(job)
        line.leave(job)
    assert seen == [1, 2, 3]


def test_jobs_enter_all_together_or_not_at_all() -> None:
    line: JobLine[int] = JobLine(slots=2, waiting=2)
    line.enter([1, 2, 3])
    with pytest.raises(Busy) as caught:
        line.enter([4, 5])
    assert list(line) == [1, 2, 3]
    assert caught.value.retry_after_s >= 1
    line.enter([4])
    assert len(line) == 4


def test_those_who_run_count_and_long_answers_mean_a_long_wait() -> None:
    line: JobLine[int] = JobLine(slots=1, waiting=1)
    line.running = 1
    line.enter([1])
    short = JobLine[int](slots=1, waiting=1)
    short.running = 1
    short.enter([1])
    for _ in range(50):
        line.ended(60.0)
        short.ended(0.1)
    with pytest.raises(Busy) as long_wait:
        line.enter([2])
    with pytest.raises(Busy) as short_wait:
        short.enter([2])
    assert long_wait.value.retry_after_s > 30 > short_wait.value.retry_after_s


def test_a_closed_line_takes_nobody_and_ends_a_wait() -> None:
    line: JobLine[int] = JobLine(slots=1, waiting=1)
    waiter = threading.Thread(target=line.wait)
    waiter.start()
    line.close()
    waiter.join(10)
    assert not waiter.is_alive()
    with pytest.raises(Unavailable):
        line.enter([1])


def test_a_job_or_a_call_wakes_who_waits() -> None:
    line: JobLine[int] = JobLine(slots=1, waiting=1)
    waiter = threading.Thread(target=line.wait)
    waiter.start()
    line.enter([1])
    waiter.join(10)
    assert not waiter.is_alive()
