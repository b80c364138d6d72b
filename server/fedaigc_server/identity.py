"""The server's own keys and tokens, and the officer's folder that the first start makes."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from fedaigc.canonical import canonical_bytes
from fedaigc.errors import IdentityError
from fedaigc.files import PRIVATE_FILE, private_folder, read_private, write_atomic, write_private
from fedaigc.sealing import SealingKey, SealingPublicKey
from fedaigc.signing import SigningKey
from fedaigc_server.officer_pair import OFFICER_FILE, OWNER_FILE, claim, note_place, require_pair

TAG_KEY_BYTES = 32
TOKEN_BYTES = 32


@dataclass(frozen=True)
class ServerIdentity:
    """What a running server holds; `repr` shows no secret."""

    log_key: SigningKey
    release_key: SigningKey
    tenant_key: SealingPublicKey
    tag_key: bytes = field(repr=False)
    """The tenant's 32-byte tag key: single-organisation mode hands month keys to devices from it."""
    operator_token: str = field(repr=False)
    officer_token: str = field(repr=False)


def load_identity(data: Path, officer: Path) -> ServerIdentity:
    """Read the keys; only a first start makes them: a second key would orphan what the first signed.

    Raises IdentityError naming the file that is missing, open to others or damaged, or the officer's folder
    that belongs to another server.
    """
    keys = private_folder(data / "keys")
    require_pair(keys, officer)
    # Made last by the first start, so that a start that was killed half-way is finished by the next.
    done = keys / "tenant.pub"
    if not done.exists():
        private_folder(officer)
        _make_missing(keys, officer)
        write_atomic(done, SealingKey.load(officer / "tenant.key").public.text().encode("ascii"))
    tenant = SealingPublicKey.from_text(done.read_text(encoding="ascii").strip())
    log_key = SigningKey.load(keys / "log.key")
    if not (officer / OWNER_FILE).exists():
        claim(officer, log_key.public)
    note_place(keys, officer)
    return ServerIdentity(
        log_key=log_key,
        release_key=SigningKey.load(keys / "release.key"),
        tenant_key=tenant,
        tag_key=_tag_key(officer / "tag.key"),
        operator_token=_token(keys / "operator.token"),
        officer_token=_token(officer / "officer.token"),
    )


def write_officer_file(officer: Path, admin_url: str, log_vkey: str, ca_file: Path) -> None:
    """Tell the officer's tools where the admin API is and which log key to trust."""
    record = {"admin_url": admin_url, "log_vkey": log_vkey, "ca_file": str(ca_file)}
    write_atomic(officer / OFFICER_FILE, canonical_bytes(record), mode=PRIVATE_FILE)


def superexec_secret(folder: Path) -> Path:
    """The file whose secret lets our SuperExec, and nobody else here, take tasks; made on first use."""
    path = private_folder(folder) / "superexec.secret"
    if not path.exists():
        write_private(path, secrets.token_bytes(TOKEN_BYTES))
    return path


def _make_missing(keys: Path, officer: Path) -> None:
    claim(officer, SigningKey.load_or_create(keys / "log.key").public)
    SigningKey.load_or_create(keys / "release.key")
    SealingKey.load_or_create(officer / "tenant.key")
    if not (officer / "tag.key").exists():
        write_private(officer / "tag.key", secrets.token_bytes(TAG_KEY_BYTES))
    for path in (keys / "operator.token", officer / "officer.token"):
        if not path.exists():
            write_private(path, secrets.token_urlsafe(TOKEN_BYTES).encode("ascii"))


def _tag_key(path: Path) -> bytes:
    raw = read_private(path)
    if len(raw) != TAG_KEY_BYTES:
        raise IdentityError(f"{path} is not a tag key", "the file is damaged", "restore it from a backup")
    return raw


def _token(path: Path) -> str:
    token = read_private(path).decode("ascii", "replace").strip()
    if len(token) < TOKEN_BYTES:
        raise IdentityError(
            f"{path} holds no token",
            "it is too short to be safe",
            f"delete {path.name} and write a longer one",
        )
    return token
