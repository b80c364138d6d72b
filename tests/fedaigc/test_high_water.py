"""A mark only rises, survives a torn write, and is never guessed."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.high_water import SLOT_BYTES, Mark, raise_mark, read_mark


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".made-x.db"


def test_what_was_raised_is_read_back_and_the_file_is_its_owners(path: Path) -> None:
    assert read_mark(path) is None
    raise_mark(path, Mark("n-1", 3, {"epsilon": 0.25}))
    assert read_mark(path) == Mark("n-1", 3, {"epsilon": 0.25})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_lower_mark_changes_nothing(path: Path) -> None:
    for height in (5, 4, 5, 7, 6):
        raise_mark(path, Mark("n-1", height))
    assert read_mark(path) == Mark("n-1", 7)


def test_another_owner_begins_at_its_own_height(path: Path) -> None:
    raise_mark(path, Mark("n-1", 9))
    raise_mark(path, Mark("n-2", 1))
    assert read_mark(path) == Mark("n-2", 1)


@pytest.mark.parametrize("height", [1, 2, 3, 4])
def test_a_torn_write_leaves_the_mark_before_it(path: Path, height: int) -> None:
    for reached in range(1, height + 1):
        raise_mark(path, Mark("n-1", reached))
    before = path.read_bytes()
    raise_mark(path, Mark("n-1", height + 1))
    after = path.read_bytes()
    slot = 0 if before[SLOT_BYTES:] == after[SLOT_BYTES:] else SLOT_BYTES
    assert before[slot : slot + SLOT_BYTES] != after[slot : slot + SLOT_BYTES]
    path.write_bytes(after[: slot + 30] + before[slot + 30 :])
    assert read_mark(path) == Mark("n-1", height)
    raise_mark(path, Mark("n-1", height + 2))
    assert read_mark(path) == Mark("n-1", height + 2)


@pytest.mark.parametrize("content", [b"", b"\0" * 2 * SLOT_BYTES, b"{}\n", b"ab" * 20 + b" {"])
def test_a_mark_of_which_nothing_is_whole_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StorageError, match="damaged"):
        read_mark(path)
    with pytest.raises(StorageError, match="damaged"):
        raise_mark(path, Mark("n-1", 1))
    assert path.read_bytes() == content


def test_the_marker_of_an_earlier_release_counts_as_height_nothing(path: Path) -> None:
    path.write_bytes(b"n-0123456789abcdef")
    assert read_mark(path) == Mark("n-0123456789abcdef")
    raise_mark(path, Mark("n-0123456789abcdef", 2))
    assert read_mark(path) == Mark("n-0123456789abcdef", 2)


def test_many_writers_leave_the_highest(path: Path) -> None:
    raise_mark(path, Mark("n-1"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda height: raise_mark(path, Mark("n-1", height)), range(60)))
    assert read_mark(path) == Mark("n-1", 59)


def test_facts_that_do_not_fit_and_a_folder_that_is_missing_are_errors_of_ours(path: Path) -> None:
    with pytest.raises(VerificationFailed):
        raise_mark(path, Mark("n-1", 1, {"root": "x" * SLOT_BYTES}))
    with pytest.raises(StorageError):
        raise_mark(path.parent / "absent" / "x", Mark("n-1", 1))
    path.symlink_to(path.parent / "elsewhere")
    with pytest.raises(StorageError):
        raise_mark(path, Mark("n-1", 1))
