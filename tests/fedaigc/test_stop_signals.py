"""A command that has nothing to stop in order yet ends at once, quietly, with the code that it chose."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from fedaigc.stop_signals import INTERRUPTED, STOPPED, ended_by_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("code", [STOPPED, INTERRUPTED])
def test_a_signal_ends_the_program_with_the_chosen_code_and_no_traceback(number: int, code: int) -> None:
    program = (
        "import time; from fedaigc.stop_signals import ended_by_signals\n"
        f"with ended_by_signals({code}):\n    print('up', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        child.send_signal(number)
        _, errors = child.communicate(timeout=20)
    assert (child.returncode, errors) == (code, b"")


def test_after_the_block_the_signals_mean_what_they_meant() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with ended_by_signals(STOPPED):
        assert signal.getsignal(signal.SIGTERM) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
