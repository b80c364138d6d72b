"""Tell a first start from a database that went missing: an empty one would forget what was promised."""

from __future__ import annotations

from pathlib import Path

from fedaigc.errors import StorageError
from fedaigc.files import write_private

MARKER = ".made-"
"""How a marker's name begins; deleting one lets a new database begin."""


def require_if_made(database: Path, owner: str, loss: str) -> None:
    """Raise StorageError when `owner` made `database` here before and it is gone, with `loss`."""
    marker = _marker(database)
    if not database.exists() and marker.exists() and marker.read_text(encoding="utf-8") == owner:
        raise StorageError(
            f"{database} is missing",
            f"it was made here before, and a new one would be empty: {loss}",
            "restore it from a backup",
        )


def note_made(database: Path, owner: str) -> None:
    """Remember durably that `owner` has `database`; call it once the file exists. Raises StorageError."""
    marker = _marker(database)
    if not marker.exists() or marker.read_text(encoding="utf-8") != owner:
        write_private(marker, owner.encode("utf-8"))


def _marker(database: Path) -> Path:
    # Named so that a pattern which takes the database and its journals along does not take this.
    return database.with_name(f"{MARKER}{database.name}")
