"""Name a model by its content: BLAKE3 of every file, and one hash over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from blake3 import blake3

from fedaigc.canonical import canonical_bytes
from fedaigc.errors import StorageError


def hash_file(path: Path) -> str:
    """BLAKE3 of a file in hexadecimal, read through the page cache; raises StorageError."""
    try:
        return blake3().update_mmap(path).hexdigest() if path.stat().st_size else blake3().hexdigest()
    except OSError as error:
        raise StorageError(
            f"Cannot read {path}", error.strerror or "", "check the disk and its owner"
        ) from error


def hash_folder(folder: Path) -> dict[str, str]:
    """Relative POSIX path -> BLAKE3 of every file below `folder`, sorted by path; raises StorageError."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hash_file(path) for path in files}


def folder_digest(hashes: Mapping[str, str]) -> str:
    """One BLAKE3 over the sorted list of (path, BLAKE3): the hash that names an export."""
    return blake3(canonical_bytes([[path, hashes[path]] for path in sorted(hashes)])).hexdigest()
