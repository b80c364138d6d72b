from __future__ import annotations

import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.receipt import HEADER, MAX_PROOF_HASHES, MAX_RECEIPT_BYTES, Receipt
from fedaigc.signing import b64

NOTE = "ledger.example\n3\nAAAA\n\n\u2014 ledger.example AAAA\n"
RECEIPT = Receipt(2, (b"a" * 32, b"b" * 32), NOTE, b"entry")


def test_a_receipt_has_the_exact_form_of_the_specification() -> None:
    assert RECEIPT.to_text() == (
        f"c2sp.org/tlog-proof@v1\nextra ZW50cnk=\nindex 2\n{b64(b'a' * 32)}\n{b64(b'b' * 32)}\n\n{NOTE}"
    )


def test_a_receipt_comes_back_as_it_was_written() -> None:
    longest = Receipt(2**62, (b"c" * 32,) * MAX_PROOF_HASHES, NOTE, b"e" * 32_768)
    for receipt in (RECEIPT, Receipt(0, (), NOTE, b""), longest):
        assert Receipt.from_text(receipt.to_text()) == receipt


def test_malformed_receipts_are_refused() -> None:
    text = RECEIPT.to_text()
    bad = [
        "",
        HEADER,
        f"{HEADER}\nextra ZW50cnk=",
        text.replace("@v1", "@v2"),
        text.replace("extra ", "extra"),
        text.replace("extra ZW50cnk=\n", ""),
        text.replace("ZW50cnk=", "ZW50cnk"),
        text.replace("ZW50cnk=", "\ud800"),
        text.replace("index 2", "index 02"),
        text.replace("index 2", "index -2"),
        text.replace("index 2", "index \u0662"),
        text.replace("index 2", "index " + "9" * 30),
        text.replace("index 2", "index"),
        text.replace(b64(b"a" * 32), b64(b"a" * 31)),
        text.replace(b64(b"a" * 32), "?"),
        Receipt(0, (b"a" * 32,) * (MAX_PROOF_HASHES + 1), NOTE, b"").to_text(),
        text + "x" * MAX_RECEIPT_BYTES,
    ]
    for receipt in bad:
        with pytest.raises(VerificationFailed):
            Receipt.from_text(receipt)
