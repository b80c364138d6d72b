"""The two calls before a device is enrolled: fetch the CA unverified, then enrol over verified TLS."""

from __future__ import annotations

import hashlib
import hmac
import ssl
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fedaigc.canonical import Json, canonical_bytes, parse_record
from fedaigc.errors import VerificationFailed
from fedaigc_edge.federation.error_answer import error_from_answer
from fedaigc_edge.federation.server_connection import connection_error, pinned_context

TIMEOUT_S = 30.0
MAX_CA_BYTES = 64 << 10
MAX_ENROL_ANSWER_BYTES = 1 << 20


def fetch_ca(address: str, expected_sha256: str) -> bytes:
    """The CA as PEM, only if it is the one in the token. Nothing secret is sent on this first connection."""
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    content = _fetch(address, unverified, "GET", "/v1/ca", b"", MAX_CA_BYTES)
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError:
        certificates = []
    # Exactly one, and re-encoded: a second certificate after the right one would be trusted as well.
    der = certificates[0].public_bytes(Encoding.DER) if len(certificates) == 1 else b""
    if not hmac.compare_digest(hashlib.sha256(der).hexdigest(), expected_sha256.lower()):
        raise VerificationFailed(
            f"The server at {address} is not the one that made this token",
            "its CA has another fingerprint: another server, one set up anew, or somebody in between",
            "check the address and ask the operator for a new token; nothing secret was sent",
        )
    return certificates[0].public_bytes(Encoding.PEM)


def ca_fingerprint(ca_file: Path) -> str:
    """The SHA-256 of the one certificate in the file, as tokens have it; empty if there is none."""
    try:
        (certificate,) = x509.load_pem_x509_certificates(ca_file.read_bytes())
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def require_same_server(address: str, ca_file: Path) -> None:
    """Raise VerificationFailed or Unavailable unless a server whose certificate is from `ca_file` answers."""
    _fetch(address, pinned_context(ca_file), "GET", "/v1/ca", b"", MAX_CA_BYTES)


def send_enrolment(address: str, ca_file: Path, body: dict[str, Json]) -> dict[str, Any]:
    """POST /v1/enrol, trusting only `ca_file`; raises JoinTokenError, VerificationFailed or Unavailable."""
    content = canonical_bytes(body)
    answer = _fetch(address, pinned_context(ca_file), "POST", "/v1/enrol", content, MAX_ENROL_ANSWER_BYTES)
    return parse_record(answer, MAX_ENROL_ANSWER_BYTES)


def _fetch(address: str, context: ssl.SSLContext, method: str, path: str, body: bytes, limit: int) -> bytes:
    try:
        with (
            httpx.Client(verify=context, timeout=TIMEOUT_S, trust_env=False) as http,
            http.stream(method, f"https://{address}{path}", content=body) as answer,
        ):
            content = bytearray()
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > limit:
                    raise VerificationFailed("The server's answer is too large", f"more than {limit} bytes")
    except httpx.HTTPError as error:
        raise connection_error(error, address) from error
    if answer.status_code != 200:
        raise error_from_answer(answer.status_code, bytes(content), f"{method} {path}")
    return bytes(content)
