"""Receipts and sealed openings as files, to be verified later and elsewhere without the server."""

from __future__ import annotations

from pathlib import Path

from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.files import write_atomic
from fedaigc.receipt import FILE_SUFFIX, MAX_RECEIPT_BYTES

OPENING_SUFFIX = ".opening"
MAX_OPENING_BYTES = 64 << 10


def save_receipt(path: Path, receipt: str) -> Path:
    """Write a receipt, atomically; raises StorageError."""
    write_atomic(path, receipt.encode())
    return path


def save_match(folder: Path, index: int, receipt: str, sealed: bytes) -> Path:
    """Write a match's receipt, and beside it its opening, still sealed; returns the receipt's path."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"Cannot make {folder}", error.strerror or "", "give another folder") from error
    path = folder / f"{index}{FILE_SUFFIX}"
    write_atomic(path.with_suffix(OPENING_SUFFIX), sealed)
    return save_receipt(path, receipt)


def read_receipt(path: Path) -> str:
    """A saved receipt's text, not yet verified; raises StorageError or VerificationFailed."""
    try:
        return _read(path, MAX_RECEIPT_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise VerificationFailed(
            f"{path} is not a receipt", "it is not text", "give a .tlog-proof file"
        ) from None


def read_opening(receipt: Path) -> bytes:
    """The sealed opening that was saved beside a receipt; raises StorageError."""
    return _read(receipt.with_suffix(OPENING_SUFFIX), MAX_OPENING_BYTES)


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise StorageError(
            f"Cannot read {path}",
            error.strerror or "",
            "save it with: fedaigc-ledger search FILE --save FOLDER",
        ) from error
    if len(data) > limit:
        raise VerificationFailed(f"{path} is too large", f"the limit is {limit} bytes", "give the right file")
    return data
