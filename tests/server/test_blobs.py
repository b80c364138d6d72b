"""A blob's name is its hash: what comes back is what was put, or an error."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.fingerprint import blob_digest
from fedaigc_server import blobs as blobs_module
from fedaigc_server.blobs import Blobs


def test_a_blob_comes_back_under_its_hash(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    digest = blobs.put(b"content")
    assert digest == blob_digest(b"content")
    assert blobs.has(digest)
    assert Blobs(tmp_path / "blobs").get(digest) == b"content"
    file = tmp_path / "blobs" / digest[:2] / digest
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_putting_a_blob_twice_changes_nothing(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    before = (tmp_path / blobs.put(b"x")[:2]).stat().st_mtime_ns
    blobs.put(b"x")
    assert (tmp_path / blob_digest(b"x")[:2]).stat().st_mtime_ns == before


def test_a_damaged_blob_is_never_returned(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    digest = blobs.put(b"content")
    (tmp_path / digest[:2] / digest).write_bytes(b"Content")
    with pytest.raises(VerificationFailed, match="damaged"):
        blobs.get(digest)


@pytest.mark.parametrize("name", ["", "ab", "../../etc/passwd", "A" * 64, "a" * 63 + "\n", "0" * 64])
def test_what_is_not_stored_or_no_name_is_not_there(tmp_path: Path, name: str) -> None:
    blobs = Blobs(tmp_path)
    assert not blobs.has(name)
    with pytest.raises(StorageError, match="not stored"):
        blobs.get(name)


def test_a_blob_above_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs_module, "MAX_BLOB_BYTES", 3)
    with pytest.raises(StorageError, match="too large"):
        Blobs(tmp_path).put(b"four")
