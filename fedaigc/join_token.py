"""The one string that lets a device join: where the server is, which CA to trust, and a one-time secret.

Form: `fedaigc1` and unpadded lower-case base32 of (canonical JSON || first four bytes of its BLAKE3). It has
no punctuation, so a double click selects it whole, and a typing error is caught before anything is sent.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from blake3 import blake3

from fedaigc.canonical import canonical_bytes, parse_canonical
from fedaigc.errors import FedaigcError, JoinTokenError

PREFIX = "fedaigc1"
MAX_TOKEN_CHARS = 1024
SECRET_BYTES = 16
_CHECK_BYTES = 4
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
_TAIL_CHARS = frozenset({0, 2, 4, 5, 7})
"""How many characters may be left over after whole groups of eight: other lengths hold no whole bytes."""
_INCOMPLETE = "the token is incomplete: its end is missing"


@dataclass(frozen=True)
class JoinToken:
    """What one token says; `secret` is shown once and stored by the server only as a hash."""

    address: str
    """`host:port` of the server's public TLS port."""
    ca_sha256: str
    """SHA-256 of the CA certificate (DER), hexadecimal."""
    secret: str
    """The one-time secret, 32 hexadecimal digits."""
    expires: int
    """Unix seconds after which the server refuses it."""
    region: str
    role: str = "edge"

    def __repr__(self) -> str:
        """Everything but the secret."""
        return f"JoinToken(address={self.address!r}, region={self.region!r}, expires={self.expires})"

    @property
    def token_id(self) -> str:
        """The server's name for the token: BLAKE3 of the secret, 16 hexadecimal digits."""
        return blake3(b"fedaigc token id v1" + self.secret.encode("ascii")).hexdigest()[:16]

    @property
    def expired(self) -> bool:
        """By this machine's clock, which may be wrong: the server decides."""
        return datetime.now(UTC).timestamp() > self.expires

    def encode(self) -> str:
        """The printable form."""
        payload = canonical_bytes(
            {
                "a": self.address,
                "c": self.ca_sha256,
                "e": self.expires,
                "g": self.region,
                "r": self.role,
                "s": self.secret,
            }
        )
        body = base64.b32encode(payload + blake3(payload).digest()[:_CHECK_BYTES])
        return PREFIX + body.decode("ascii").rstrip("=").lower()

    @classmethod
    def decode(cls, text: str) -> JoinToken:
        """Read a printed token; raises JoinTokenError that says whether it was cut short or mistyped."""
        token = "".join(text.split())
        if not token.startswith(PREFIX) or len(token) > MAX_TOKEN_CHARS:
            raise _malformed(f"its beginning is missing: a token starts with {PREFIX}")
        payload = _payload(token.removeprefix(PREFIX).upper())
        try:
            record = parse_canonical(payload)
            return cls(
                address=str(record["a"]),
                ca_sha256=str(record["c"]),
                secret=str(record["s"]),
                expires=int(record["e"]),
                region=str(record["g"]),
                role=str(record["r"]),
            )
        except (FedaigcError, KeyError, ValueError, TypeError):
            raise _malformed("it was made by another version") from None


def new_secret() -> str:
    """A fresh one-time secret with 128 random bits."""
    return secrets.token_hex(SECRET_BYTES)


def _payload(body: str) -> bytes:
    if not _ALPHABET.issuperset(body):
        raise _malformed("it has characters that no token has")
    if len(body) % 8 not in _TAIL_CHARS:
        raise _malformed(_INCOMPLETE)
    data = base64.b32decode(body + "=" * (-len(body) % 8))
    payload, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    if blake3(payload).digest()[:_CHECK_BYTES] != check:
        # What is checked is one JSON object: without its closing brace, the rest of it was not copied.
        raise _malformed("a character of it was mistyped" if payload.endswith(b"}") else _INCOMPLETE)
    return payload


def _malformed(why: str) -> JoinTokenError:
    return JoinTokenError(
        "This join token cannot be read", why, "copy it again, all of it, from `fedaigc-server token create`"
    )
