"""The CA is taken only if it is the token's, and only it: nothing that is sent beside it is trusted."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response

from fedaigc.errors import FedaigcError, VerificationFailed
from fedaigc_edge.federation.first_contact import MAX_CA_BYTES, fetch_ca, send_enrolment
from tests.edge.tls_server import make_ca, tls_server


@pytest.mark.parametrize("extra", [b"", b"nonsense"])
def test_a_second_certificate_smuggled_behind_the_right_one_is_not_trusted(
    tmp_path: Path, extra: bytes
) -> None:
    ca, other = make_ca(tmp_path / "ca"), make_ca(tmp_path / "other")
    bundle = ca.ca_file.read_bytes() + (extra or other.ca_file.read_bytes())
    with tls_server(ca, lambda request, body: Response(bundle)) as (address, _):
        if extra:
            assert fetch_ca(address, ca.sha256) == ca.ca_file.read_bytes()
        else:
            with pytest.raises(VerificationFailed):
                fetch_ca(address, ca.sha256)


@pytest.mark.parametrize("content", [b"", b"<html>", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_what_is_no_certificate_is_not_the_tokens_server(tmp_path: Path, content: bytes) -> None:
    ca = make_ca(tmp_path)
    with (
        tls_server(ca, lambda request, body: Response(content)) as (address, _),
        pytest.raises(VerificationFailed, match="not the one"),
    ):
        fetch_ca(address, ca.sha256)


def test_an_endless_answer_is_cut_off(tmp_path: Path) -> None:
    ca = make_ca(tmp_path)
    with (
        tls_server(ca, lambda request, body: Response(b"x" * (MAX_CA_BYTES + 1))) as (address, _),
        pytest.raises(VerificationFailed, match="too large"),
    ):
        fetch_ca(address, ca.sha256)


def test_the_tokens_fingerprint_may_be_written_in_capitals(tmp_path: Path) -> None:
    ca = make_ca(tmp_path)
    with tls_server(ca, lambda request, body: Response(ca.ca_file.read_bytes())) as (address, _):
        pem = fetch_ca(address, ca.sha256.upper())
    assert ssl.PEM_cert_to_DER_cert(pem.decode()) == ssl.PEM_cert_to_DER_cert(ca.ca_file.read_text())


def test_a_refused_enrolment_without_a_reason_tells_its_status(tmp_path: Path) -> None:
    ca = make_ca(tmp_path)
    with (
        tls_server(ca, lambda request, body: JSONResponse({}, 418)) as (address, _),
        pytest.raises(FedaigcError, match="418"),
    ):
        send_enrolment(address, ca.ca_file, {"token_id": "t"})
