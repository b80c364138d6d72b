from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from fedaigc.errors import IdentityError
from fedaigc.files import private_folder
from fedaigc_server.certificates import ensure_certificates

NOW = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return private_folder(tmp_path / "keys")


def _certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_first_call_makes_a_p384_ca_and_a_certificate_that_openssl_verifies(keys: Path) -> None:
    files, changed = ensure_certificates(keys, ("dc.example.org", "192.0.2.7"), NOW)
    ca, own = _certificate(files.ca), _certificate(files.certificate)
    assert changed
    key = ca.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp384r1"
    own.verify_directly_issued_by(ca)
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "dc.example.org"} <= set(names.get_values_for_type(x509.DNSName))
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert {"127.0.0.1", "::1", "192.0.2.7"} <= addresses
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    assert files.ca_sha256 == ca.fingerprint(hashes.SHA256()).hex()


def test_private_keys_are_readable_by_their_owner_only(keys: Path) -> None:
    ensure_certificates(keys, (), NOW)
    assert {path.name: path.stat().st_mode & 0o777 for path in keys.glob("*.key")} == {
        "ca.key": 0o600,
        "tls.key": 0o600,
    }


def test_nothing_changes_while_everything_is_good(keys: Path) -> None:
    ensure_certificates(keys, ("dc.example.org",), NOW)
    before = {path.name: path.read_bytes() for path in keys.iterdir()}
    _, changed = ensure_certificates(keys, ("dc.example.org",), NOW + timedelta(days=200))
    assert not changed
    assert before == {path.name: path.read_bytes() for path in keys.iterdir()}


@pytest.mark.parametrize(
    ("names", "days"), [((), 345), (("new.example.org",), 1)], ids=["near its end", "another name"]
)
def test_the_certificate_is_issued_again_under_the_same_ca(
    keys: Path, names: tuple[str, ...], days: int
) -> None:
    first, _ = ensure_certificates(keys, (), NOW)
    later = NOW + timedelta(days=days)
    second, changed = ensure_certificates(keys, names, later)
    assert changed
    assert second.ca_sha256 == first.ca_sha256
    assert _certificate(second.certificate).not_valid_after_utc > later + timedelta(days=300)


def test_a_pair_that_does_not_fit_is_replaced(keys: Path) -> None:
    files, _ = ensure_certificates(keys, (), NOW)
    files.key.write_bytes((keys / "ca.key").read_bytes())
    assert ensure_certificates(keys, (), NOW)[1]


def test_a_lost_ca_key_is_told_only_when_it_is_needed(keys: Path) -> None:
    ensure_certificates(keys, (), NOW)
    (keys / "ca.key").unlink()
    ensure_certificates(keys, (), NOW)
    with pytest.raises(IdentityError, match=r"ca\.key is missing"):
        ensure_certificates(keys, ("new.example.org",), NOW)


def test_a_damaged_ca_is_never_replaced_silently(keys: Path) -> None:
    ensure_certificates(keys, (), NOW)
    (keys / "ca.crt").write_bytes(b"damaged")
    with pytest.raises(IdentityError, match="not a certificate"):
        ensure_certificates(keys, (), NOW)
