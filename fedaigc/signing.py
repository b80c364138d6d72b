"""Ed25519 signatures (RFC 8032) over bytes that name their purpose, and key files only the owner can read."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from fedaigc.errors import IdentityError, VerificationFailed
from fedaigc.files import read_private, write_private

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64


def b64(data: bytes) -> str:
    """Standard base64 with padding, as C2SP notes use it."""
    return base64.b64encode(data).decode("ascii")


def unb64(text: str, length: int | None = None) -> bytes:
    """Strict base64; raises VerificationFailed when malformed or not `length` bytes."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise VerificationFailed("A field is not base64", "", "copy the whole value") from None
    if length is not None and len(data) != length:
        raise VerificationFailed(
            "A field has the wrong length", f"{len(data)} bytes instead of {length}", "copy the whole value"
        )
    return data


@dataclass(frozen=True)
class PublicKey:
    """An Ed25519 public key, 32 bytes."""

    raw: bytes

    @classmethod
    def from_text(cls, text: str) -> PublicKey:
        """Read a base64 key; raises VerificationFailed."""
        return cls(unb64(text, PUBLIC_KEY_BYTES))

    def text(self) -> str:
        """The key in base64."""
        return b64(self.raw)

    def verify(self, purpose: str, message: bytes, signature: bytes) -> None:
        """Raise VerificationFailed unless `signature` was made for this purpose and message."""
        self.verify_raw(_framed(purpose, message), signature)

    def verify_raw(self, message: bytes, signature: bytes) -> None:
        """Verify without a purpose, for formats that frame their own messages (C2SP notes)."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise VerificationFailed(
                "A signature does not check",
                "the bytes were changed, or another key signed them",
                "fetch the original again; if it still fails, treat it as forged",
            ) from None


@dataclass(frozen=True)
class SigningKey:
    """An Ed25519 private key; `repr` never shows it."""

    _key: Ed25519PrivateKey

    def __repr__(self) -> str:
        """The public half only."""
        return f"SigningKey(public={self.public.text()})"

    @classmethod
    def generate(cls) -> SigningKey:
        """A fresh key from the system's generator."""
        return cls(Ed25519PrivateKey.generate())

    @property
    def public(self) -> PublicKey:
        """The key that checks our signatures."""
        return PublicKey(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, purpose: str, message: bytes) -> bytes:
        """Sign for one purpose, so that no signature can be replayed as another kind of statement."""
        return self._key.sign(_framed(purpose, message))

    def sign_raw(self, message: bytes) -> bytes:
        """Sign without a purpose, for formats that frame their own messages (C2SP notes)."""
        return self._key.sign(message)

    def save(self, path: Path) -> None:
        """Write the key as PKCS#8 PEM, mode 0600, atomically and durably."""
        write_private(path, self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """Read a key file; raises IdentityError when it is missing, open to others or damaged."""
        try:
            key = load_pem_private_key(read_private(path), password=None)
        except ValueError:
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise IdentityError(
                f"{path.name} is not an Ed25519 key", "the file is damaged", "restore it from a backup"
            )
        return cls(key)

    @classmethod
    def load_or_create(cls, path: Path) -> SigningKey:
        """The key at `path`, made on first use."""
        if path.exists():
            return cls.load(path)
        key = cls.generate()
        key.save(path)
        return key


def _framed(purpose: str, message: bytes) -> bytes:
    # The NUL cannot occur in a purpose, so no two (purpose, message) pairs share a framing.
    return b"fedaigc/" + purpose.encode("ascii") + b"/v1\x00" + message
