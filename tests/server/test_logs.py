from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedaigc_server.logs import start_logging


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers, root.level = handlers, level


def test_events_go_to_the_file_as_key_value_and_libraries_stay_quiet(tmp_path: Path) -> None:
    start_logging(tmp_path / "logs", verbose=False)
    logging.getLogger("fedaigc_server.x").info("event=test count=%d", 3)
    logging.getLogger("httpx").info("HTTP Request: GET https://somewhere")
    text = (tmp_path / "logs" / "server.log").read_text()
    assert "level=INFO logger=fedaigc_server.x event=test count=3" in text
    assert "somewhere" not in text
