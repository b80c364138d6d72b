"""Seal bytes to an X25519 public key (HPKE base mode, RFC 9180: X25519, HKDF-SHA256, ChaCha20-Poly1305)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from fedaigc.errors import IdentityError, VerificationFailed
from fedaigc.files import read_private, write_private
from fedaigc.signing import b64, unb64

KEY_BYTES = 32
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def _info(purpose: str) -> bytes:
    return b"fedaigc/" + purpose.encode("ascii") + b"/v1"


@dataclass(frozen=True)
class SealingPublicKey:
    """The X25519 key to which others seal, 32 bytes."""

    raw: bytes

    @classmethod
    def from_text(cls, text: str) -> SealingPublicKey:
        """Read a base64 key; raises VerificationFailed."""
        return cls(unb64(text, KEY_BYTES))

    def text(self) -> str:
        """The key in base64."""
        return b64(self.raw)

    def seal(self, purpose: str, plaintext: bytes) -> bytes:
        """Encrypt so that only the private key's holder can read it, and only for this purpose."""
        return _SUITE.encrypt(plaintext, X25519PublicKey.from_public_bytes(self.raw), _info(purpose))


@dataclass(frozen=True)
class SealingKey:
    """An X25519 private key; `repr` never shows it."""

    _key: X25519PrivateKey

    def __repr__(self) -> str:
        """The public half only."""
        return f"SealingKey(public={self.public.text()})"

    @classmethod
    def generate(cls) -> SealingKey:
        """A fresh key from the system's generator."""
        return cls(X25519PrivateKey.generate())

    @property
    def public(self) -> SealingPublicKey:
        """The key that others seal to."""
        return SealingPublicKey(self._key.public_key().public_bytes_raw())

    def open(self, purpose: str, sealed: bytes) -> bytes:
        """Decrypt; raises VerificationFailed when it was sealed to another key or purpose, or changed."""
        try:
            return _SUITE.decrypt(sealed, self._key, _info(purpose))
        except (InvalidTag, ValueError):
            raise VerificationFailed(
                "A sealed value does not open",
                "it was sealed to another key, or changed",
                "use the key it was sealed to",
            ) from None

    def save(self, path: Path) -> None:
        """Write the 32 raw bytes, mode 0600, atomically and durably."""
        write_private(path, self._key.private_bytes_raw())

    @classmethod
    def load(cls, path: Path) -> SealingKey:
        """Read a key file; raises IdentityError."""
        raw = read_private(path)
        if len(raw) != KEY_BYTES:
            raise IdentityError(
                f"{path.name} is not an X25519 key", "the file is damaged", "restore it from a backup"
            )
        return cls(X25519PrivateKey.from_private_bytes(raw))

    @classmethod
    def load_or_create(cls, path: Path) -> SealingKey:
        """The key at `path`, made on first use."""
        if path.exists():
            return cls.load(path)
        key = cls.generate()
        key.save(path)
        return key
