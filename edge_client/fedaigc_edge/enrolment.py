"""What the server told the device when it joined, kept in one file beside the keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedaigc.canonical import Json, parse_record
from fedaigc.errors import IdentityError, VerificationFailed
from fedaigc.files import read_private, write_private
from fedaigc.identifiers import NodeId, node_id
from fedaigc.sealing import SealingPublicKey
from fedaigc.signing import PublicKey

ENROLMENT_FILE = "enrolment.json"
CA_FILE = "ca.crt"
FORMAT = 1


@dataclass(frozen=True)
class Enrolment:
    """Who this device is to the server, and which keys it trusts. Holds no secret but is kept private."""

    node: NodeId
    address: str
    """`host:port` of the server's public TLS port."""
    name: str
    region: str
    token_id: str
    """The public name of the token that was used, so that the same command can be run again."""
    log_vkey: str
    """The ledger's verifier key, C2SP form."""
    release_key: PublicKey
    """Checks policies and round plans."""
    tenant_key: SealingPublicKey
    """The organisation that openings are sealed to."""
    poll_s: int
    """How often the server wants to be asked for policies, seconds."""

    def save(self, data: Path) -> None:
        """Write the file, mode 0600, atomically and durably: after a crash there is one or none."""
        record = {
            "v": FORMAT,
            "node": self.node,
            "address": self.address,
            "name": self.name,
            "region": self.region,
            "token_id": self.token_id,
            "log_vkey": self.log_vkey,
            "release_key": self.release_key.text(),
            "tenant_key": self.tenant_key.text(),
            "poll_s": self.poll_s,
        }
        write_private(data / ENROLMENT_FILE, json.dumps(record, indent=1).encode("utf-8"))

    @classmethod
    def load(cls, data: Path) -> Enrolment:
        """Read the file; raises IdentityError when the device has not joined or the file is damaged."""
        path = data / ENROLMENT_FILE
        if not path.exists():
            raise IdentityError(
                f"The device in {data} has not joined a server",
                f"{ENROLMENT_FILE} is missing",
                "run: fedaigc-edge join --token TOKEN",
            )
        try:
            record = parse_record(read_private(path))
            if record.get("v") != FORMAT:
                raise VerificationFailed("Another version wrote the enrolment", f"v={record.get('v')}")
            return cls.from_answer(
                record,
                str(record["address"]),
                str(record["name"]),
                str(record["region"]),
                str(record["token_id"]),
            )
        except (VerificationFailed, KeyError, TypeError, ValueError) as error:
            raise IdentityError(
                f"{path} is damaged",
                error.why or error.what if isinstance(error, VerificationFailed) else type(error).__name__,
                "restore it from a backup, or ask the operator for a new token and run: "
                f"fedaigc-edge join --data {path.parent} --token TOKEN; the device stays the same node",
            ) from error

    @classmethod
    def from_answer(
        cls, answer: Mapping[str, Json], address: str, name: str, region: str, token_id: str
    ) -> Enrolment:
        """Check the server's answer to an enrolment; raises VerificationFailed on a malformed value."""
        try:
            return cls(
                node=node_id(answer["node"]),
                address=address,
                name=name,
                region=region,
                token_id=token_id,
                log_vkey=str(answer["log_vkey"]),
                release_key=PublicKey.from_text(answer["release_key"]),
                tenant_key=SealingPublicKey.from_text(answer["tenant_key"]),
                poll_s=max(1, int(answer["poll_s"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise VerificationFailed(
                "The server's answer to the enrolment is incomplete",
                type(error).__name__,
                "install the same version on device and server",
            ) from error


def is_enrolled(data: Path) -> bool:
    """Whether a join has finished in this data folder."""
    return (data / ENROLMENT_FILE).exists()


def is_damaged(data: Path) -> bool:
    """Whether a join has finished here and its file makes no sense now.

    Raises IdentityError when the file cannot be judged, being readable by others.
    """
    if not is_enrolled(data):
        return False
    read_private(data / ENROLMENT_FILE)
    try:
        Enrolment.load(data)
    except IdentityError:
        return True
    return False
