"""A search path that holds a few chosen programs and nothing else.

Flower starts its task processes by name, and a server may ask a device for any kind of task. With a closed
path only the named programs exist, and each is the one that we chose.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedaigc.files import PRIVATE_FOLDER, private_folder, write_atomic


def closed_path(folder: Path, programs: Mapping[str, Sequence[str]]) -> str:
    """Make `folder` hold exactly `programs`; returns what PATH must be. Raises StorageError.

    Args:
        folder: ours alone; whatever else lies in it is removed.
        programs: name -> the command that stands behind it; arguments are passed on.
    """
    private_folder(folder)
    for stray in folder.iterdir():
        if stray.name not in programs:
            stray.unlink()
    for name, command in programs.items():
        script = f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
        write_atomic(folder / name, script.encode("utf-8"), mode=PRIVATE_FOLDER)
    return str(folder)
