from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import StorageError
from fedaigc.made_before import note_made, require_if_made


def test_a_first_start_may_make_it(tmp_path: Path) -> None:
    require_if_made(tmp_path / "ledger.db", "server", "entries")


def test_a_database_that_went_missing_is_not_made_anew(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    database.write_bytes(b"x")
    note_made(database, "server")
    require_if_made(database, "server", "entries would be lost")
    database.unlink()
    with pytest.raises(StorageError, match="entries would be lost"):
        require_if_made(database, "server", "entries would be lost")


def test_another_owner_begins_with_a_database_of_its_own(tmp_path: Path) -> None:
    note_made(tmp_path / "evidence.db", "n-1")
    require_if_made(tmp_path / "evidence.db", "n-2", "")
    note_made(tmp_path / "evidence.db", "n-2")
    with pytest.raises(StorageError):
        require_if_made(tmp_path / "evidence.db", "n-2", "")
