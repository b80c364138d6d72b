"""What SIGTERM and Ctrl-C mean while a command has nothing yet that must be stopped in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 0
"""The exit code of a daemon that was told to stop, also when it was still starting."""
INTERRUPTED = 130
"""The exit code of an act that was cut short: a script must not take it for done."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ended_by_signals(exit_code: int) -> Iterator[None]:
    """SIGTERM and SIGINT leave the block, and the program, with `exit_code` and without a traceback.

    Begin it before slow imports. An event loop inside may take the signals over for as long as it runs. Call
    it in the main thread.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(exit_code)

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
