"""Sign and check one HTTP request with a node's key, so that TLS needs no client certificates.

Headers: `fedaigc-node`, `fedaigc-time` (Unix seconds) and `fedaigc-signature` (base64 Ed25519 over the
method, path with query, time, node and BLAKE3 of the body).
"""

from __future__ import annotations

from collections.abc import Mapping

from fedaigc.canonical import canonical_bytes
from fedaigc.errors import NotAuthorised, VerificationFailed
from fedaigc.fingerprint import blob_digest
from fedaigc.identifiers import NodeId, node_id
from fedaigc.signing import SIGNATURE_BYTES, PublicKey, SigningKey, b64, unb64

NODE_HEADER = "fedaigc-node"
TIME_HEADER = "fedaigc-time"
SIGNATURE_HEADER = "fedaigc-signature"
PURPOSE = "request"

MAX_CLOCK_SKEW_S = 300
"""A signed request further off is refused; the answer tells the device how wrong its clock is."""


def signed_headers(
    key: SigningKey, node: NodeId, method: str, path: str, body: bytes, now: int
) -> dict[str, str]:
    """The three headers for one request; `path` is the path with its query string, `now` Unix seconds."""
    signature = key.sign(PURPOSE, _message(node, method, path, body, now))
    return {NODE_HEADER: node, TIME_HEADER: str(now), SIGNATURE_HEADER: b64(signature)}


def claimed_node(headers: Mapping[str, str]) -> NodeId:
    """Who the request says it is from; raises NotAuthorised when it does not say."""
    try:
        return node_id(headers.get(NODE_HEADER, ""))
    except VerificationFailed:
        raise NotAuthorised(
            "This request names no node",
            f"the {NODE_HEADER} header is missing or malformed",
            "join first: fedaigc-edge join",
        ) from None


def check_signed(
    key: PublicKey, headers: Mapping[str, str], method: str, path: str, body: bytes, now: int
) -> None:
    """Raise NotAuthorised unless the node's key signed exactly this request within the allowed clock skew."""
    node = claimed_node(headers)
    try:
        time = int(headers.get(TIME_HEADER, ""))
        signature = unb64(headers.get(SIGNATURE_HEADER, ""), SIGNATURE_BYTES)
        key.verify(PURPOSE, _message(node, method, path, body, time), signature)
    except (VerificationFailed, ValueError):
        raise NotAuthorised(
            "This request's signature does not check",
            "another key signed it, or it was changed on the way",
            "run: fedaigc-edge status; if the keys were lost, ask for a new token",
        ) from None
    skew = time - now
    if abs(skew) > MAX_CLOCK_SKEW_S:
        raise NotAuthorised(
            f"This device's clock is {abs(skew)} s {'ahead' if skew > 0 else 'behind'}",
            f"at most {MAX_CLOCK_SKEW_S} s are allowed, so that a recorded request cannot be replayed",
            "set the clock (NTP); nothing is lost meanwhile",
        )


def _message(node: NodeId, method: str, path: str, body: bytes, time: int) -> bytes:
    return canonical_bytes(
        {"body": blob_digest(body), "method": method.upper(), "node": node, "path": path, "time": time}
    )
