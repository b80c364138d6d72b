"""`fedaigc-edge` as a command line: quick, helpful, and with an exit code for each kind of trouble."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedaigc_edge.cli import device

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
COMMANDS = ("join", "run", "status", "leave", "feedback")


def _invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(device, arguments)
    return result.exit_code, result.output


def test_help_lists_every_command_and_an_example() -> None:
    code, text = _invoke("--help")
    assert code == 0
    assert "Example" in text
    for name in (*COMMANDS, "model"):
        assert name in text


@pytest.mark.parametrize("name", COMMANDS)
def test_each_commands_help_has_an_example_and_its_exit_codes(name: str) -> None:
    code, text = _invoke(name, "--help")
    assert code == 0
    assert f"fedaigc-edge {name}" in text
    assert "Exit codes" in text


def test_help_loads_no_heavy_library() -> None:
    program = (
        "import sys; from fedaigc_edge.cli import device\n"
        "try: device(['join', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'onnxruntime', 'onnxruntime_genai', 'flwr', 'transformers', 'httpx', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.slow
def test_help_takes_less_than_half_a_second() -> None:
    program = [sys.executable, "-m", "fedaigc_edge", "--help"]
    subprocess.run(program, check=True, capture_output=True, env=ENVIRONMENT)
    times = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run(program, check=True, capture_output=True, env=ENVIRONMENT)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.5


def test_our_errors_go_to_stderr_with_their_exit_code(tmp_path: Path) -> None:
    result = CliRunner().invoke(device, ["run", "--data", str(tmp_path)])
    assert result.exit_code == 4
    assert result.stdout == ""
    assert "fedaigc-edge join" in result.stderr
    assert "Traceback" not in result.stderr
