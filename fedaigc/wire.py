"""One signed framing for round plans, updates and policy manifests: bytes out, checked bytes in.

    magic (8) | header length (4, big endian) | header (canonical JSON) | signature (64) | payload

The Ed25519 signature covers the header and its purpose; the header holds the payload's size and BLAKE3. So
the signature is checked before a byte of the payload is parsed, and no payload can be moved under another
header.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Mapping

from fedaigc.canonical import Json, canonical_bytes, parse_canonical
from fedaigc.errors import VerificationFailed
from fedaigc.fields import Fields
from fedaigc.fingerprint import blob_digest
from fedaigc.signing import SIGNATURE_BYTES, PublicKey, SigningKey

MAGIC = b"fedaigc\x01"
MAX_HEADER_BYTES = 256 << 10
MAX_MESSAGE_BYTES = 64 << 20
"""The largest signed message that is read at all."""

_LENGTH = struct.Struct(">I")
_PREFIX_BYTES = len(MAGIC) + _LENGTH.size


def seal_message(purpose: str, record: Mapping[str, Json], key: SigningKey, payload: bytes = b"") -> bytes:
    """Sign `record` and `payload` for one purpose. Raises VerificationFailed when they pass the limits."""
    if {"payload", "payload_bytes"} & set(record):
        raise VerificationFailed("A record uses a reserved field", "payload", "rename the field")
    header = canonical_bytes({**record, "payload": blob_digest(payload), "payload_bytes": len(payload)})
    if len(header) > MAX_HEADER_BYTES:
        raise _refused(f"its header has {len(header)} bytes, limit {MAX_HEADER_BYTES}")
    message = MAGIC + _LENGTH.pack(len(header)) + header + key.sign(purpose, header) + payload
    if len(message) > MAX_MESSAGE_BYTES:
        raise _refused(f"it has {len(message)} bytes, limit {MAX_MESSAGE_BYTES}")
    return message


def open_message(
    purpose: str, data: bytes, public: PublicKey, limit: int = MAX_MESSAGE_BYTES
) -> tuple[Fields, bytes]:
    """The record's fields and the payload of a message signed by `public` for `purpose`.

    Raises VerificationFailed when anything differs from what was signed.
    """
    if not _PREFIX_BYTES + SIGNATURE_BYTES <= len(data) <= min(limit, MAX_MESSAGE_BYTES):
        raise _refused(f"it has {len(data)} bytes, limit {min(limit, MAX_MESSAGE_BYTES)}")
    if not data.startswith(MAGIC):
        raise _refused("it does not start with our magic")
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    start = _PREFIX_BYTES + length + SIGNATURE_BYTES
    if length > MAX_HEADER_BYTES or start > len(data):
        raise _refused("its header is longer than allowed")
    header = data[_PREFIX_BYTES : _PREFIX_BYTES + length]
    public.verify(purpose, header, data[_PREFIX_BYTES + length : start])
    record = parse_canonical(header, MAX_HEADER_BYTES)
    payload = data[start:]
    fields = Fields(record, purpose)
    size, digest = record.pop("payload_bytes", None), record.pop("payload", None)
    if size != len(payload) or not hmac.compare_digest(str(digest), blob_digest(payload)):
        raise _refused("its payload is not the one that was signed")
    return fields, payload


def _refused(why: str) -> VerificationFailed:
    return VerificationFailed("A signed message cannot be read", why, "fetch the original again")
