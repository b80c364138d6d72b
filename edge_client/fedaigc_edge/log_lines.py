"""Log lines as key=value, to stderr and to a file that is turned before it grows large."""

from __future__ import annotations

import logging
import logging.handlers
import time
from pathlib import Path

from fedaigc.files import private_folder

LOG_FILE = "edge.log"
MAX_FILE_BYTES = 5 << 20
KEPT_FILES = 3


class KeyValueFormatter(logging.Formatter):
    """`time=... level=... at=... event=... key=value`; an exception adds its type, never its text."""

    def format(self, record: logging.LogRecord) -> str:
        """One line for one record."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        line = f"time={moment} level={record.levelname.lower()} at={record.name} event={record.getMessage()}"
        if record.exc_info and record.exc_info[0] is not None:
            line += f" error={record.exc_info[0].__name__}"
        return line.replace("\n", "\\n")


def begin_logging(data: Path, level: int = logging.INFO) -> None:
    """Send our log lines to stderr and `logs/edge.log`, and other libraries' warnings as well."""
    folder = private_folder(data / "logs")
    file = logging.handlers.RotatingFileHandler(
        folder / LOG_FILE, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES, encoding="utf-8"
    )
    root = logging.getLogger()
    for sink in (logging.StreamHandler(), file):
        sink.setFormatter(KeyValueFormatter())
        root.addHandler(sink)
    root.setLevel(logging.WARNING)
    for ours in ("fedaigc", "fedaigc_edge"):
        logging.getLogger(ours).setLevel(level)
