"""Keep a server and its officer's folder together: one log key, one tenant; never somebody else's."""

from __future__ import annotations

from pathlib import Path

from fedaigc.canonical import parse_record
from fedaigc.errors import IdentityError, VerificationFailed
from fedaigc.files import read_private, write_private
from fedaigc.sealing import SealingKey
from fedaigc.signed_note import NoteKey
from fedaigc.signing import PublicKey, SigningKey

OWNER_FILE = "log.pub"
"""In the officer's folder: the public log key of the one server that it belongs to."""
PLACE_FILE = "officer.path"
"""Among the server's keys: where its officer's folder was when it last started."""
OFFICER_FILE = "officer.json"

_SECRETS = ("tenant.key", "tag.key", "officer.token")


def require_pair(keys: Path, officer: Path) -> None:
    """Raise IdentityError unless `officer` is the folder of the server with `keys`, or still nobody's.

    A server that has started before accepts only its own; a first start also accepts an empty place.
    """
    started = (keys / "tenant.pub").exists()
    if not started or not (officer / "tenant.key").exists():
        has_key = started or (keys / "log.key").exists()
        ours = SigningKey.load(keys / "log.key").public if has_key else None
        foreign = any(owner != ours for owner in _owners(officer))
    else:
        # The tenant decides: if the log key was exchanged, the ledger that it did not sign says so.
        tenant = SealingKey.load(officer / "tenant.key").public.text()
        foreign = tenant != (keys / "tenant.pub").read_text(encoding="ascii").strip()
    if foreign:
        raise _foreign(keys, officer, started)
    if started and not any((officer / name).exists() for name in _SECRETS):
        raise IdentityError(
            f"{officer} is not this server's officer folder",
            "it holds none of the officer's keys, and new ones could not open what is recorded",
            _with_the_right_one(keys, officer),
        )


def claim(officer: Path, log_key: PublicKey) -> None:
    """Write into the officer's folder whose it is. Before its keys are made, so that none are shared."""
    write_private(officer / OWNER_FILE, log_key.text().encode("ascii"))


def note_place(keys: Path, officer: Path) -> None:
    """Remember where the officer's folder is, to name it when a later start is given another."""
    place = str(officer).encode("utf-8", "surrogateescape")
    if not (keys / PLACE_FILE).exists() or read_private(keys / PLACE_FILE) != place:
        write_private(keys / PLACE_FILE, place)


def _owners(officer: Path) -> list[PublicKey | str]:
    """The log keys that the folder names; a text instead of a key that cannot be read, equal to none."""
    owners: list[PublicKey | str] = []
    marker, record = officer / OWNER_FILE, officer / OFFICER_FILE
    try:
        if marker.exists():
            owners.append(PublicKey.from_text(read_private(marker).decode("ascii", "replace").strip()))
        if record.exists():
            owners.append(NoteKey.from_vkey(str(parse_record(read_private(record)).get("log_vkey"))).public)
    except VerificationFailed:
        # A damaged officer.json is written anew; without any other owner nobody knows whose it was.
        return owners or ["damaged"]
    return owners


def _foreign(keys: Path, officer: Path, started: bool) -> IdentityError:
    return IdentityError(
        f"{officer} is the officer folder of another server",
        "its keys open that server's records, and its log.pub or officer.json names that server's log key",
        _with_the_right_one(keys, officer)
        if started
        else "give this server a new folder of its own: --officer FOLDER; or start the other server's --data",
    )


def _with_the_right_one(keys: Path, officer: Path) -> str:
    place = (
        Path(read_private(keys / PLACE_FILE).decode("utf-8", "surrogateescape"))
        if (keys / PLACE_FILE).exists()
        else officer
    )
    if place == officer:
        return "restore the folder from a backup, or name this server's with --officer FOLDER"
    return f"start it with --officer {place}, or with the folder to which you moved that one"
