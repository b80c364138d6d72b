"""The line in front of the slots: first come first served, bounded, and honest about how long it is."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from fedaigc.errors import Busy, Unavailable

T = TypeVar("T")

FIRST_GUESS_S = 5.0
"""How long an answer is taken to last before one was measured."""
_SMOOTHING = 0.2


class JobLine(Generic[T]):
    """Jobs that wait and a count of those that run; `enter` may be called from any thread, the rest from one.

    Args:
        slots: jobs that run at one time.
        waiting: jobs that may wait besides.
    """

    def __init__(self, slots: int, waiting: int) -> None:
        self.slots = slots
        self.most_waiting = waiting
        self.running = 0
        self._line: deque[T] = deque()
        self._changed = threading.Condition()
        self._mean_s = FIRST_GUESS_S
        self._closed = False

    def __len__(self) -> int:
        return len(self._line)

    @property
    def closed(self) -> bool:
        """Whether no more jobs are taken."""
        return self._closed

    def enter(self, jobs: Sequence[T]) -> None:
        """Put jobs at the end, all or none. Raises Busy with `retry_after_s`, Unavailable when closed."""
        with self._changed:
            if self._closed:
                raise Unavailable("This device is stopping", "", "try again when it is back")
            if self.running + len(self._line) + len(jobs) > self.slots + self.most_waiting:
                raise Busy(
                    "This device is generating as much as it can",
                    f"{self.running} answers run and {len(self._line)} wait",
                    "try again after the time in Retry-After",
                    retry_after_s=self._wait_guess(),
                )
            self._line.extend(jobs)
            self._changed.notify()

    def first(self) -> T | None:
        """The job whose turn it is; it stays in line."""
        return self._line[0] if self._line else None

    def leave(self, job: T) -> None:
        """Take a job out of the line."""
        with self._changed:
            self._line.remove(job)

    def __iter__(self) -> Iterator[T]:
        with self._changed:
            return iter(tuple(self._line))

    def ended(self, seconds: float) -> None:
        """A job that ran has ended after this long."""
        self._mean_s += _SMOOTHING * (seconds - self._mean_s)

    def wait(self) -> None:
        """Sleep until a job comes, something calls `wake`, or the line is closed."""
        with self._changed:
            if not self._line and not self._closed:
                self._changed.wait()

    def wake(self) -> None:
        """End a `wait`."""
        with self._changed:
            self._changed.notify()

    def close(self) -> None:
        """Take no more jobs."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _wait_guess(self) -> int:
        ahead = self.running + len(self._line)
        return max(1, min(600, math.ceil(self._mean_s * ahead / self.slots / 2)))
