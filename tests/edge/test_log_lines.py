"""Log lines: key=value, private folder, and never an exception's text."""

from __future__ import annotations

import logging
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedaigc_edge.log_lines import KeyValueFormatter, begin_logging


@pytest.fixture
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for sink in set(root.handlers) - set(before):
        root.removeHandler(sink)
        sink.close()
    root.setLevel(level)


def test_a_line_is_key_value_and_an_exception_adds_its_type_only() -> None:
    try:
        raise ValueError("the secret\nprompt")
    except ValueError:
        record = logging.LogRecord(
            "fedaigc.edge", logging.ERROR, "", 1, "x_failed a=%d", (3,), sys.exc_info()
        )
    record.created = 0.0
    line = KeyValueFormatter().format(record)
    assert line == "time=1970-01-01T00:00:00Z level=error at=fedaigc.edge event=x_failed a=3 error=ValueError"


@pytest.mark.usefixtures("_restored")
def test_lines_go_to_stderr_and_to_a_file_in_a_private_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin_logging(tmp_path)
    logging.getLogger("fedaigc.edge").info("ready port=%d", 1)
    logging.getLogger("other.library").info("chatter")
    file = (tmp_path / "logs" / "edge.log").read_text()
    assert "event=ready port=1" in file
    assert "event=ready port=1" in capsys.readouterr().err
    assert "chatter" not in file
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700
