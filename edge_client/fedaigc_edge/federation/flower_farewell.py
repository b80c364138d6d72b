"""Say goodbye to Flower for a SuperNode that was killed, so that the next one is let in at once.

Flower counts a SuperNode as online until its heartbeats have been missing for a minute, and refuses a second
one with the same key meanwhile. A SuperNode that ends in order signs itself off; this does it for one that
could not. Wire form of flwr 1.42 (`NodeAuthHttpInterceptor`, `DeactivateNodeRequest`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from fedaigc.errors import FedaigcError
from fedaigc.files import read_private
from fedaigc.signing import b64
from fedaigc_edge.federation.server_connection import pinned_context

PATH = "/v1/fleet/deactivate-node"
WAIT_S = 5.0

log = logging.getLogger("fedaigc.edge.supernode")


async def say_farewell(
    address: str,
    ca_file: Path,
    flower_key: Path,
    flower_node: int,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> bool:
    """Tell the server that the SuperNode `flower_node` is gone; whether it believed us. Never raises."""
    try:
        headers = _signed_headers(flower_key, now())
        async with httpx.AsyncClient(verify=pinned_context(ca_file), timeout=WAIT_S, trust_env=False) as http:
            body = b"\x08" + _varint(flower_node)
            answer = await http.post(f"https://{address}{PATH}", content=body, headers=headers)
    except (httpx.HTTPError, FedaigcError, ValueError) as error:
        log.info("farewell=unsaid error=%s", type(error).__name__)
        return False
    log.info("farewell=said status=%d", answer.status_code)
    return answer.status_code == 200


def _signed_headers(flower_key: Path, moment: datetime) -> dict[str, str]:
    key = load_ssh_private_key(read_private(flower_key), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return {}
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    timestamp = moment.isoformat()
    return {
        "content-type": "application/protobuf",
        "accept": "application/protobuf",
        "flwr-public-key": b64(public),
        "flwr-timestamp": timestamp,
        "flwr-signature": b64(key.sign(timestamp.encode("ascii"), ec.ECDSA(hashes.SHA256()))),
    }


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
