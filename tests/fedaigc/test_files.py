from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedaigc.errors import FolderInUse, IdentityError, StorageError
from fedaigc.files import (
    file_stamp,
    folder_lock,
    make_private,
    private_folder,
    read_private,
    write_atomic,
    write_private,
)


def test_a_private_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    write_private(tmp_path / "secret", b"x")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_a_new_private_file_is_empty_and_one_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    make_private(path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"content")
    make_private(path)
    assert path.read_bytes() == b"content"


@pytest.mark.parametrize("target", ["there", "nowhere"])
def test_a_private_file_is_not_made_through_a_link(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "link").symlink_to(tmp_path / target)
    with pytest.raises(OSError, match="symbolic links"):
        make_private(tmp_path / "link")
    assert not (tmp_path / "nowhere").exists()


def test_a_private_folder_is_closed_to_others_even_if_it_was_open(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    assert private_folder(tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="disk is full"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_secret_says_so(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="missing"):
        read_private(tmp_path / "absent")


def test_a_folder_has_one_owner_and_the_second_is_told_which(tmp_path: Path) -> None:
    with folder_lock(tmp_path), pytest.raises(FolderInUse, match=str(os.getpid())), folder_lock(tmp_path):
        pass
    with folder_lock(tmp_path):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from fedaigc.files import folder_lock\n"
        "with folder_lock(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(FolderInUse), folder_lock(tmp_path):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    with folder_lock(tmp_path):
        pass


def test_a_stamp_changes_with_the_file_and_is_none_without_one(tmp_path: Path) -> None:
    path = tmp_path / "watched"
    assert file_stamp(path) is file_stamp(None) is None
    path.write_text("one")
    first = file_stamp(path)
    assert first == file_stamp(path) is not None
    path.write_text("other")
    assert file_stamp(path) != first
