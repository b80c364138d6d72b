from __future__ import annotations

import pytest

from fedaigc.errors import NotAuthorised
from fedaigc.identifiers import new_node_id
from fedaigc.request_signature import SIGNATURE_HEADER, check_signed, claimed_node, signed_headers
from fedaigc.signing import SigningKey

KEY, NODE, NOW = SigningKey.generate(), new_node_id(), 1_800_000_000
HEADERS = signed_headers(KEY, NODE, "POST", "/v1/ledger/batches?x=1", b"body", NOW)


def test_a_signed_request_checks() -> None:
    check_signed(KEY.public, HEADERS, "POST", "/v1/ledger/batches?x=1", b"body", NOW + 60)
    assert claimed_node(HEADERS) == NODE


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/ledger/batches?x=1", b"body"),
        ("POST", "/v1/ledger/batches", b"body"),
        ("POST", "/v1/ledger/batches?x=1", b"body2"),
    ],
)
def test_no_part_of_the_request_can_be_changed(method: str, path: str, body: bytes) -> None:
    with pytest.raises(NotAuthorised, match="signature"):
        check_signed(KEY.public, HEADERS, method, path, body, NOW)


def test_another_key_or_node_does_not_check() -> None:
    with pytest.raises(NotAuthorised):
        check_signed(SigningKey.generate().public, HEADERS, "POST", "/v1/ledger/batches?x=1", b"body", NOW)
    stolen = {**HEADERS, "fedaigc-node": new_node_id()}
    with pytest.raises(NotAuthorised):
        check_signed(KEY.public, stolen, "POST", "/v1/ledger/batches?x=1", b"body", NOW)


@pytest.mark.parametrize(("offset", "word"), [(301, "behind"), (-301, "ahead")])
def test_a_wrong_clock_is_told_by_how_much(offset: int, word: str) -> None:
    with pytest.raises(NotAuthorised, match=f"301 s {word}"):
        check_signed(KEY.public, HEADERS, "POST", "/v1/ledger/batches?x=1", b"body", NOW + offset)


@pytest.mark.parametrize("header", ["", "AAAA", "not base64", "é"])
def test_malformed_headers_are_refused(header: str) -> None:
    with pytest.raises(NotAuthorised):
        check_signed(KEY.public, {**HEADERS, SIGNATURE_HEADER: header}, "POST", "/", b"", NOW)
    with pytest.raises(NotAuthorised, match="names no node"):
        claimed_node({})
