"""Join a server with one token: check its CA against the token, prove our keys, keep what it answers.

Order: keys, CA (compared with the token before anything secret is sent), enrolment over verified TLS, tag
keys, and last the enrolment file. A crash at any point leaves a folder in which the same command goes on.
"""

from __future__ import annotations

import os
import platform
import socket
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import fedaigc
from fedaigc.canonical import Json, canonical_bytes
from fedaigc.errors import (
    IdentityError,
    SettingsError,
)
from fedaigc.files import write_atomic
from fedaigc.join_token import JoinToken
from fedaigc.signing import b64
from fedaigc_edge.enrolment import CA_FILE, Enrolment, is_damaged, is_enrolled
from fedaigc_edge.federation.first_contact import (
    ca_fingerprint,
    fetch_ca,
    require_same_server,
    send_enrolment,
)
from fedaigc_edge.federation.tag_keys import TagKeys
from fedaigc_edge.former_node import set_aside
from fedaigc_edge.identity import Identity
from fedaigc_edge.settings import MAX_NAME_CHARS
from fedaigc_edge.standing import STANDING_FILE, StandingRecord, State

PURPOSE = "enrol"


def join_once(data: Path, address: str, token: JoinToken, name: str) -> tuple[Enrolment, bool]:
    """Enrol, or go on with an enrolment that the same token made; returns it and whether it is fresh.

    Call it while holding the folder's lock. A new token in the folder of a node that left or was revoked
    makes a new node and sets the old one aside; where the enrolment or the CA is damaged it makes the server
    say again who this node is. Raises IdentityError when the folder's node is sound, active and stays where
    it is.
    """
    if is_enrolled(data):
        enrolment = _present(data, address, token)
        if enrolment is not None:
            return enrolment, False
    identity = Identity.load_or_create(data / "keys")
    enrolment = enrol(data, address, token, identity, name)
    # Left from a former node when a crash came between.
    (data / STANDING_FILE).unlink(missing_ok=True)
    return enrolment, True


def _present(data: Path, address: str, token: JoinToken) -> Enrolment | None:
    """The folder's node if it goes on as it is; None when the token has to be used."""
    active = StandingRecord(data).current.state is State.ACTIVE
    if is_damaged(data):
        if not active:
            set_aside(data)
        # With the keys that are here the server knows its node again, and no evidence changes hands.
        return None
    enrolment = Enrolment.load(data)
    if enrolment.token_id == token.token_id:
        return _going_on(data, enrolment, address, token)
    if not active:
        set_aside(data)
        return None
    trusted = ca_fingerprint(data / CA_FILE)
    if not trusted and address == enrolment.address:
        return None
    if trusted == token.ca_sha256 and address != enrolment.address:
        return _moved(data, enrolment, address)
    raise _already_joined(data, enrolment, trusted, token)


def _already_joined(data: Path, enrolment: Enrolment, trusted: str, token: JoinToken) -> IdentityError:
    what = f"The device in {data} has already joined {enrolment.address} as {enrolment.node}"
    if not trusted:
        return IdentityError(
            what,
            f"its {CA_FILE} is damaged, so that no other address can be checked",
            f"join at its own first: fedaigc-edge join https://{enrolment.address} --data {data}"
            " --token TOKEN",
        )
    return IdentityError(
        what,
        "another token was used then; one folder is one device"
        + ("" if trusted == token.ca_sha256 else ", and this token is not of its server"),
        f"start it: fedaigc-edge run --data {data}; if its server has a new address, join again with that URL"
        f" and any token of that server; or end it first: fedaigc-edge leave --data {data}; or give another"
        " --data",
    )


def _going_on(data: Path, enrolment: Enrolment, address: str, token: JoinToken) -> Enrolment:
    if ca_fingerprint(data / CA_FILE) != token.ca_sha256.lower():
        write_atomic(data / CA_FILE, fetch_ca(address, token.ca_sha256))
    if enrolment.address != address:
        enrolment = _moved(data, enrolment, address)
    StandingRecord(data).returned()
    return enrolment


def _moved(data: Path, enrolment: Enrolment, address: str) -> Enrolment:
    # The pinned CA has to vouch for the new address before the device depends on it.
    require_same_server(address, data / CA_FILE)
    moved = replace(enrolment, address=address)
    moved.save(data)
    return moved


def server_address(url: str | None, token: JoinToken) -> str:
    """`host:port` from the URL when one is given, else from the token; raises SettingsError."""
    if not url:
        return token.address
    try:
        parsed = urlsplit(url if "://" in url else f"https://{url}")
        host, port = parsed.hostname, parsed.port or 443
    except ValueError:
        host = None
    if (
        not host
        or parsed.scheme != "https"
        or parsed.path not in ("", "/")
        or parsed.query
        or parsed.username
    ):
        raise SettingsError(
            f"{url} is not a server's address", "it must be https://host:port", "copy it from the operator"
        )
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def enrol(data: Path, address: str, token: JoinToken, identity: Identity, name: str) -> Enrolment:
    """Do the whole exchange and save its result; doing it again with the same keys and token is the same.

    Raises VerificationFailed (not the token's server), JoinTokenError, Unavailable, or the server's error.
    """
    write_atomic(data / CA_FILE, fetch_ca(address, token.ca_sha256))
    answer = send_enrolment(address, data / CA_FILE, enrol_request(token, identity, name))
    enrolment = Enrolment.from_answer(answer, address, name, token.region, token.token_id)
    TagKeys(data, identity.sealing).keep(answer.get("tag_keys") or {})
    enrolment.save(data)
    return enrolment


def enrol_request(token: JoinToken, identity: Identity, name: str) -> dict[str, Json]:
    """The body of POST /v1/enrol, with the proof that we hold the signing key."""
    body: dict[str, Json] = {
        "token_id": token.token_id,
        "secret": token.secret,
        "name": name,
        "region": token.region,
        "signing_key": identity.signing.public.text(),
        "flower_key": identity.flower.public_text,
        "sealing_key": identity.sealing.public.text(),
        "capability": capability(),
    }
    body["proof"] = b64(identity.signing.sign(PURPOSE, canonical_bytes(body)))
    return body


def capability() -> dict[str, Json]:
    """What this machine is, as far as planning rounds needs it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "version": fedaigc.__version__,
        "cpus": os.cpu_count() or 1,
        "memory_mb": memory >> 20,
        "machine": platform.machine(),
        "python": platform.python_version(),
    }


def device_name(wanted: str) -> str:
    """The name for the operator's list: what was asked for, else the host's."""
    return (wanted or socket.gethostname())[:MAX_NAME_CHARS]
