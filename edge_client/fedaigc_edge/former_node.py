"""Set a node that ended aside, so that its folder can become a new node and its evidence is still there."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fedaigc.errors import StorageError
from fedaigc.files import private_folder, sync_folder
from fedaigc_edge.enrolment import CA_FILE, ENROLMENT_FILE, Enrolment, is_damaged
from fedaigc_edge.federation.tag_keys import TAG_KEYS_FILE
from fedaigc_edge.standing import STANDING_FILE

FORMER_FOLDER = "former"

_MOVED = ("keys", CA_FILE, TAG_KEYS_FILE, "evidence.db*", "policy", "flower", STANDING_FILE, ENROLMENT_FILE)
"""In this order: until the enrolment itself is moved, a crash leaves a folder that still says who it was.

learn.db stays: feedback is the owner's, and the privacy already spent on it must never be forgotten.
"""


def set_aside(data: Path) -> Path:
    """Move the enrolled node's keys, evidence and policy to `former/NODE`; returns that folder.

    Call it while holding the folder's lock. Going on after a crash is safe. Raises StorageError.
    """
    target = private_folder(data / FORMER_FOLDER / _name_of(data))
    try:
        for pattern in _MOVED:
            for path in sorted(data.glob(pattern)):
                path.replace(target / path.name)
        sync_folder(target)
        sync_folder(data)
    except OSError as error:
        raise StorageError(
            f"Cannot move the former node's files to {target}",
            error.strerror or "",
            "check the folder's disk",
        ) from error
    return target


def former_nodes(data: Path) -> list[Path]:
    """The folders of the nodes that were set aside here, sorted."""
    folder = data / FORMER_FOLDER
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _name_of(data: Path) -> str:
    if not is_damaged(data):
        return Enrolment.load(data).node
    # The same after a crash, when half of the rest has moved already.
    return f"damaged-{hashlib.sha256((data / ENROLMENT_FILE).read_bytes()).hexdigest()[:12]}"
