"""A small server with real TLS and a CA of its own, for tests of what the device says and believes."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from fedaigc_edge.listening import loopback_socket

Answer = Callable[[Request, bytes], Response]


@dataclass(frozen=True)
class TestCa:
    """A CA and one server certificate for 127.0.0.1 made by it, as files."""

    __test__ = False

    ca_file: Path
    cert_file: Path
    key_file: Path

    @property
    def sha256(self) -> str:
        """The CA's fingerprint, as a join token carries it."""
        certificate = x509.load_pem_x509_certificate(self.ca_file.read_bytes())
        return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def make_ca(folder: Path, host: str = "127.0.0.1") -> TestCa:
    """A fresh CA whose server certificate names `host`."""
    folder.mkdir(parents=True, exist_ok=True)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("test CA", "test CA", ca_key, ca_key, None)
    leaf = _certificate("test server", "test CA", key, ca_key, host)
    files = TestCa(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")
    files.ca_file.write_bytes(ca.public_bytes(Encoding.PEM))
    files.cert_file.write_bytes(leaf.public_bytes(Encoding.PEM))
    files.key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def _certificate(
    subject: str,
    issuer: str,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    host: str | None,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), True)
    )
    if host is not None:
        name = x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
        builder = builder.add_extension(x509.SubjectAlternativeName([name]), False)
    return builder.sign(issuer_key, hashes.SHA256())


@dataclass
class Seen:
    """What reached the server: (method, path, headers, body)."""

    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def paths(self) -> list[str]:
        """The paths in order."""
        return [path for _, path, _, _ in self.requests]


@contextmanager
def tls_server(ca: TestCa, answer: Answer) -> Iterator[tuple[str, Seen]]:
    """Serve `answer(request, body)` over TLS; gives `host:port` and what was seen."""
    seen = Seen()

    async def everything(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        body = await request.body()
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        seen.requests.append((request.method, path, dict(request.headers), body))
        await answer(request, body)(scope, receive, send)

    with _served(everything, ca) as port:
        yield f"127.0.0.1:{port}", seen


@contextmanager
def _served(app: Callable[[Any, Any, Any], Awaitable[None]] | Starlette, ca: TestCa) -> Iterator[int]:
    config = uvicorn.Config(
        app,
        ssl_certfile=str(ca.cert_file),
        ssl_keyfile=str(ca.key_file),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    listener = loopback_socket(0)
    port = int(listener.getsockname()[1])
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(10)
