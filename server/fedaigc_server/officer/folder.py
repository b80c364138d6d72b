"""The officer's folder: the keys that open what the ledger keeps sealed, and where the ledger is."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fedaigc.canonical import parse_record
from fedaigc.errors import IdentityError, SettingsError, VerificationFailed
from fedaigc.files import read_private
from fedaigc.sealing import SealingKey
from fedaigc.signed_note import NoteKey

DEFAULT_FOLDER = Path("~/.fedaigc/officer")
TAG_KEY_BYTES = 32
MAX_OFFICER_JSON_BYTES = 64 << 10
_FIELDS = ("admin_url", "log_vkey", "ca_file")


@dataclass(frozen=True)
class OfficerFolder:
    """What `officer.json` says, checked. Keys are read when they are needed and never shown."""

    path: Path
    admin_url: str
    """The admin API; plain HTTP only where it does not leave this machine."""
    log_vkey: str
    """The ledger's public key: all that verification trusts."""
    ca_file: Path | None = None
    """The CA of an https `admin_url`; without it, the system's."""

    @classmethod
    def open(cls, path: Path) -> OfficerFolder:
        """Read the folder; raises IdentityError when it is missing, SettingsError when its file is wrong."""
        file = path.expanduser() / "officer.json"
        if not file.exists():
            raise IdentityError(
                f"{file} is missing",
                "the server's first start makes the officer's folder",
                "copy that folder here, or name it with --officer or FEDAIGC_OFFICER",
            )
        try:
            record = parse_record(read_private(file), MAX_OFFICER_JSON_BYTES)
        except VerificationFailed as error:
            raise _wrong(file, error.what) from error
        if not set(record) <= set(_FIELDS) or not all(isinstance(value, str) for value in record.values()):
            raise _wrong(file, f"its keys are {', '.join(_FIELDS)}, each with a text")
        url, vkey = record.get("admin_url", ""), record.get("log_vkey", "")
        if not _keeps_a_secret(url):
            raise _wrong(file, "admin_url must be https, or http on this machine's own 127.0.0.1")
        try:
            NoteKey.from_vkey(vkey)
        except VerificationFailed as error:
            raise _wrong(file, f"log_vkey: {error.what}") from error
        ca_file = Path(record["ca_file"]).expanduser() if record.get("ca_file") else None
        return cls(file.parent, url.rstrip("/"), vkey, ca_file)

    def tenant_key(self) -> SealingKey:
        """The key that openings are sealed to; raises IdentityError."""
        return SealingKey.load(self.path / "tenant.key")

    def tag_key(self) -> bytes:
        """The 32 bytes from which each month's tag key is derived; raises IdentityError."""
        raw = read_private(self.path / "tag.key")
        if len(raw) != TAG_KEY_BYTES:
            raise IdentityError("tag.key is not a tag key", "the file is damaged", "restore it from a backup")
        return raw

    def token(self) -> str:
        """The bearer token for the admin API; raises IdentityError."""
        token = read_private(self.path / "officer.token").decode("ascii", "replace").strip()
        if not token or not token.isprintable() or not token.isascii():
            raise IdentityError(
                "officer.token holds no token",
                "the file is empty or damaged",
                "copy it again from the server",
            )
        return token


def _keeps_a_secret(url: str) -> bool:
    # The token goes with every request, so it may cross a network only inside TLS.
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        loopback = host == "localhost" or (bool(host) and ipaddress.ip_address(host).is_loopback)
    except ValueError:
        loopback = False
    return url.startswith("https://") or (loopback and url.startswith("http://"))


def _wrong(file: Path, why: str) -> SettingsError:
    return SettingsError(
        f"{file} is wrong", why, "start the server again with --officer, or correct the file"
    )
