from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.errors import StorageError, VerificationFailed
from fedaigc.receipt import MAX_RECEIPT_BYTES
from fedaigc_server.officer.saved_evidence import read_opening, read_receipt, save_match, save_receipt


def test_a_match_is_saved_as_a_receipt_with_its_sealed_opening_beside_it(tmp_path: Path) -> None:
    path = save_match(tmp_path / "evidence" / "case", 42, "receipt \u2014\n", b"sealed")
    assert path == tmp_path / "evidence" / "case" / "42.tlog-proof"
    assert (read_receipt(path), read_opening(path)) == ("receipt \u2014\n", b"sealed")


def test_a_receipt_can_stand_alone_but_then_has_no_opening(tmp_path: Path) -> None:
    path = save_receipt(tmp_path / "7.tlog-proof", "receipt")
    with pytest.raises(StorageError) as caught:
        read_opening(path)
    assert "--save" in caught.value.do_next


def test_what_cannot_be_a_receipt_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tlog-proof"
    for data in (b"\xff", b"x" * (MAX_RECEIPT_BYTES + 1)):
        path.write_bytes(data)
        with pytest.raises(VerificationFailed):
            read_receipt(path)
    with pytest.raises(StorageError):
        read_receipt(tmp_path / "absent")
    with pytest.raises(StorageError):
        save_match(path, 1, "receipt", b"sealed")
