"""The server's own CA (P-384) and the TLS certificate that it issues to itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedaigc.errors import IdentityError
from fedaigc.files import read_private, write_atomic, write_private

CA_VALID = timedelta(days=3650)
TLS_VALID = timedelta(days=397)
RENEW_BEFORE = timedelta(days=60)
"""A TLS certificate is replaced when less than this is left."""

ALWAYS_NAMED = ("localhost", "127.0.0.1", "::1")
_CLOCK_SLACK = timedelta(hours=1)


@dataclass(frozen=True)
class CertificateFiles:
    """Where the PEM files lie; `ca_sha256` is the hexadecimal SHA-256 of the CA's DER, as in tokens."""

    ca: Path
    certificate: Path
    key: Path
    ca_sha256: str


def ensure_certificates(keys: Path, names: Sequence[str], now: datetime) -> tuple[CertificateFiles, bool]:
    """Make what is missing, renew what nears its end or lacks a name; the files, and whether TLS changed.

    `names` are DNS names or IP addresses; the loopback names are always added.
    Raises IdentityError when a file is damaged or when the CA's key is needed and gone.
    """
    ca = _ensure_ca(keys, now)
    wanted = _alternative_names((*ALWAYS_NAMED, *names))
    changed = not _still_good(keys, ca, wanted, now)
    if changed:
        _issue(keys, ca, wanted, now)
    files = CertificateFiles(
        keys / "ca.crt", keys / "tls.crt", keys / "tls.key", ca.fingerprint(hashes.SHA256()).hex()
    )
    return files, changed


def _ensure_ca(keys: Path, now: datetime) -> x509.Certificate:
    path = keys / "ca.crt"
    if path.exists():
        return _read_certificate(path)
    if (keys / "tls.crt").exists():
        raise IdentityError(
            f"{path} is missing",
            "a new CA would cut off every device that joined under the old one",
            "restore it from a backup",
        )
    key = (
        _read_key(keys / "ca.key") if (keys / "ca.key").exists() else ec.generate_private_key(ec.SECP384R1())
    )
    write_private(keys / "ca.key", _key_pem(key))
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"FedAIGC CA {x509.random_serial_number():x}"[:24])]
    )
    certificate = (
        _builder(name, name, key.public_key(), now, CA_VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    write_atomic(path, certificate.public_bytes(Encoding.PEM))
    return certificate


def _issue(keys: Path, ca: x509.Certificate, names: x509.SubjectAlternativeName, now: datetime) -> None:
    ca_key = _read_key(keys / "ca.key")
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "FedAIGC server")])
    certificate = (
        _builder(subject, ca.subject, key.public_key(), now, TLS_VALID)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA384())
    )
    # The key first: after a crash between the two, the pair does not fit and is issued again.
    write_private(keys / "tls.key", _key_pem(key))
    write_atomic(keys / "tls.crt", certificate.public_bytes(Encoding.PEM))


def _still_good(keys: Path, ca: x509.Certificate, wanted: x509.SubjectAlternativeName, now: datetime) -> bool:
    if not ((keys / "tls.crt").exists() and (keys / "tls.key").exists()):
        return False
    certificate = _read_certificate(keys / "tls.crt")
    if certificate.public_key() != _read_key(keys / "tls.key").public_key():
        return False
    try:
        certificate.verify_directly_issued_by(ca)
        present = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return set(wanted) <= set(present) and certificate.not_valid_after_utc - now > RENEW_BEFORE


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, valid: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SLACK)
        .not_valid_after(now + valid)
    )


def _key_usage(sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative_names(names: Sequence[str]) -> x509.SubjectAlternativeName:
    values: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            values.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            values.append(x509.DNSName(name))
    return x509.SubjectAlternativeName(values)


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise IdentityError(
            f"{path.name} is not a certificate", str(error), "restore it from a backup"
        ) from error


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(read_private(path), password=None)
    except ValueError:
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(
            f"{path.name} is not an EC key", "the file is damaged", "restore it from a backup"
        )
    return key


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
