"""The server's log: one line an event, key=value, never anything that a device or a user wrote."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from pathlib import Path

from fedaigc.files import private_folder

FORMAT = "%(asctime)s level=%(levelname)s logger=%(name)s %(message)s"
MAX_BYTES = 10 << 20
KEPT = 5


def start_logging(folder: Path, verbose: bool) -> None:
    """Write to `folder/server.log`, turned at 10 MiB; with `verbose` to stderr too."""
    private_folder(folder)
    to_file = logging.handlers.RotatingFileHandler(
        folder / "server.log", maxBytes=MAX_BYTES, backupCount=KEPT
    )
    handlers: list[logging.Handler] = [to_file]
    if verbose:
        handlers.append(logging.StreamHandler(sys.stderr))
    logging.basicConfig(level=logging.INFO, format=FORMAT, handlers=handlers, force=True)
    # They log every call and start; the events that matter are logged by us.
    for name in ("httpx", "httpcore", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)
