"""Content-addressed files: the name of a blob is the BLAKE3 of its bytes, so no name means two things."""

from __future__ import annotations

import re
from pathlib import Path

from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.files import private_folder, write_private
from fedaigc.fingerprint import blob_digest

MAX_BLOB_BYTES = 64 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """A folder of blobs, `<2 hex>/<64 hex>`; safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = private_folder(folder)

    def put(self, data: bytes) -> str:
        """Store `data` durably and return its name; storing it twice changes nothing. Raises StorageError."""
        if len(data) > MAX_BLOB_BYTES:
            raise StorageError(
                "A blob is too large", f"{len(data)} bytes, limit {MAX_BLOB_BYTES}", "store less"
            )
        digest = blob_digest(data)
        path = self._path(digest)
        if not path.exists():
            private_folder(path.parent)
            write_private(path, data)
        return digest

    def has(self, digest: str) -> bool:
        """Whether a blob of this name is stored; False for what is no name at all."""
        return bool(_DIGEST.fullmatch(digest)) and self._path(digest).exists()

    def get(self, digest: str) -> bytes:
        """The bytes whose BLAKE3 is `digest`.

        Raises StorageError when they are not stored, VerificationFailed when the disk changed them.
        """
        if not self.has(digest):
            raise StorageError(
                "A blob is not stored", f"there is none named {digest[:16]}", "restore the folder"
            )
        try:
            data = self._path(digest).read_bytes()
        except OSError as error:
            raise StorageError("A blob cannot be read", error.strerror or "", "check the disk") from error
        if blob_digest(data) != digest:
            raise VerificationFailed(
                f"The blob {digest[:16]} is damaged",
                "its bytes have another hash",
                "restore it from a backup",
            )
        return data

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest
