"""The device's own keys, made here and never sent: one to sign, one for Flower, one to be sealed to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from fedaigc.errors import IdentityError
from fedaigc.files import private_folder, read_private, write_private
from fedaigc.sealing import SealingKey
from fedaigc.signing import SigningKey

SIGNING_FILE = "signing.key"
FLOWER_FILE = "flower.key"
SEALING_FILE = "sealing.key"


@dataclass(frozen=True)
class FlowerKey:
    """The EC P-384 key with which the SuperNode proves itself to Flower; `repr` shows only the file."""

    path: Path
    public_text: str
    """The public half as an OpenSSH line, as Flower registers it."""

    @classmethod
    def load(cls, path: Path) -> FlowerKey:
        """Read a key file; raises IdentityError when it is missing, open to others or damaged."""
        try:
            key = load_ssh_private_key(read_private(path), password=None)
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
            raise IdentityError(
                f"{path.name} is not a P-384 OpenSSH key", "the file is damaged", "restore it from a backup"
            )
        return cls(path, _public_text(key))

    @classmethod
    def load_or_create(cls, path: Path) -> FlowerKey:
        """The key at `path`, made on first use, mode 0600."""
        if path.exists():
            return cls.load(path)
        key = ec.generate_private_key(ec.SECP384R1())
        write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        return cls(path, _public_text(key))


@dataclass(frozen=True)
class Identity:
    """The three keys of one device."""

    signing: SigningKey
    flower: FlowerKey
    sealing: SealingKey

    @classmethod
    def load(cls, keys: Path) -> Identity:
        """Read the keys of an enrolled device; raises IdentityError when one is missing or damaged."""
        return cls(
            SigningKey.load(keys / SIGNING_FILE),
            FlowerKey.load(keys / FLOWER_FILE),
            SealingKey.load(keys / SEALING_FILE),
        )

    @classmethod
    def load_or_create(cls, keys: Path) -> Identity:
        """The keys in the folder; what is missing is made, so a join that was cut short goes on."""
        private_folder(keys)
        return cls(
            SigningKey.load_or_create(keys / SIGNING_FILE),
            FlowerKey.load_or_create(keys / FLOWER_FILE),
            SealingKey.load_or_create(keys / SEALING_FILE),
        )


def _public_text(key: ec.EllipticCurvePrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")
