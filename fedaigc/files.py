"""Files that survive a crash and that only their owner can read; one lock a data folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedaigc.errors import FolderInUse, IdentityError, StorageError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
PUBLIC_FILE = 0o644


def private_folder(path: Path) -> Path:
    """Make `path` (and parents) readable by its owner only; returns it. Raises StorageError."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        path.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise _storage_error(f"Cannot make the folder {path}", error) from error
    return path


def write_private(path: Path, data: bytes) -> None:
    """Write a secret with mode 0600, atomically and durably. Raises StorageError."""
    write_atomic(path, data, mode=PRIVATE_FILE)


def write_atomic(path: Path, data: bytes, mode: int = PUBLIC_FILE) -> None:
    """Write to a temporary file, fsync, rename, fsync the folder: after a crash the old or the new, whole.

    Raises StorageError, and then the old file is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _storage_error(f"Cannot write {path}", error) from error


def sync_folder(path: Path) -> None:
    """Make renames inside `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(path: Path) -> None:
    """Make an empty file with mode 0600 where there is none; raises OSError, for a symbolic link too.

    A file that is there is not opened: when a process closes any descriptor of a file, POSIX takes away all
    its locks on it, those of an open SQLite database too. Then the next program to leave that database
    deletes its journal, and what is committed after that is in no file.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, PRIVATE_FILE))
    except FileExistsError:
        if path.is_symlink():
            refusal = errno.ELOOP
            raise OSError(refusal, os.strerror(refusal)) from None  # caught by whoever opens the database


def file_stamp(path: Path | None) -> tuple[int, int, int] | None:
    """What changes when a file does: time, size and inode; None where there is none."""
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status is not None else None


def read_private(path: Path) -> bytes:
    """Read a secret; raises IdentityError when it is missing or when others may read it."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise IdentityError(
                    f"{path} can be read by other users", f"its mode is {mode:04o}", f"run: chmod 600 {path}"
                )
            return file.read()
    except FileNotFoundError:
        raise IdentityError(
            f"{path} is missing", "it was never made, or was deleted", "restore it or enrol again"
        ) from None
    except OSError as error:
        raise _storage_error(f"Cannot read {path}", error) from error


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock while the block runs; the kernel frees it when the process dies.

    Raises FolderInUse when another process holds it.
    """
    path = private_folder(folder) / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError as error:
        raise _storage_error(f"Cannot lock {folder}", error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 32).decode("ascii", "replace").strip()
            raise FolderInUse(
                f"The folder {folder} is in use",
                f"process {owner or 'unknown'} holds its lock",
                "stop that process first",
            ) from None
        # Who holds the lock is a courtesy: a full disk must not stop what the lock itself allows.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode("ascii"), 0)
        yield
    finally:
        os.close(descriptor)


def _storage_error(what: str, error: OSError) -> StorageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(what, "the disk is full", "free some space and run the same command again")
    return StorageError(what, error.strerror or str(error), "check the folder's owner, mode and disk")
