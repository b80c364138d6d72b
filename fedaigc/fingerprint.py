"""Give content its BLAKE3 fingerprints, and commit to them so that without the salt nothing is said.

Two fingerprints are needed: `raw` changes with every byte; `canonical` survives copy and paste, which change
white space and compatibility forms. Neither leaves the device: a template letter of 400,000 variants is
inverted from its plain hash in under a second. What leaves is a salted commitment and month-scoped tags.
"""

from __future__ import annotations

import hmac
import re
import secrets
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime

from blake3 import blake3

from fedaigc.canonical import Json, canonical_bytes

DIGEST_BYTES = 32
SALT_BYTES = 32
TAG_BYTES = 16
TAG_CONTEXT = "fedaigc {month} ledger query-tag v1"

_ZERO_WIDTH = dict.fromkeys(map(ord, "\u00ad\u180e\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"))
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Fingerprint:
    """The two BLAKE3-256 digests of one piece of content, 32 bytes each; device-private."""

    raw: bytes
    canonical: bytes

    def __repr__(self) -> str:
        """Never the digests: short content could be guessed from a log line."""
        return "Fingerprint(...)"


def canonical_text(text: str) -> str:
    """NFKC, zero-width characters removed, runs of white space to one space, ends stripped."""
    folded = unicodedata.normalize("NFKC", text).translate(_ZERO_WIDTH)
    return _SPACE.sub(" ", folded).strip()


def fingerprint_text(text: str) -> Fingerprint:
    """Fingerprint text as UTF-8; lone surrogates are hashed as they came, never refused."""
    raw = text.encode("utf-8", "surrogatepass")
    return Fingerprint(
        blake3(raw).digest(), blake3(canonical_text(text).encode("utf-8", "surrogatepass")).digest()
    )


def fingerprint_bytes(content: bytes) -> Fingerprint:
    """Fingerprint a file: `raw` over its bytes, `canonical` over its text, or `raw` again if not UTF-8."""
    raw = blake3(content).digest()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return Fingerprint(raw, raw)
    return Fingerprint(raw, blake3(canonical_text(text).encode("utf-8")).digest())


def new_salt() -> bytes:
    """32 random bytes, one salt an output; destroying it makes the commitment meaningless."""
    return secrets.token_bytes(SALT_BYTES)


def commitment(salt: bytes, fingerprint: Fingerprint, record: Json) -> bytes:
    """C = BLAKE3-keyed(salt, raw || canonical || BLAKE3(JCS(record))), 32 bytes.

    The only value in a ledger leaf that depends on content.
    """
    record_digest = blake3(canonical_bytes(record)).digest()
    return blake3(fingerprint.raw + fingerprint.canonical + record_digest, key=salt).digest()


def commitment_opens(value: bytes, salt: bytes, fingerprint: Fingerprint, record: Json) -> bool:
    """Whether the opening (salt, fingerprint, record) is the one that `value` commits to; constant time."""
    return hmac.compare_digest(value, commitment(salt, fingerprint, record))


def month_of(moment: datetime) -> str:
    """The month that scopes tags, `YYYY-MM` in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m")


def tag_key(tenant_tag_key: bytes, month: str) -> bytes:
    """The month's 32-byte tag key, derived from the tenant's (BLAKE3 derive_key mode)."""
    return blake3(tenant_tag_key, derive_key_context=TAG_CONTEXT.format(month=month)).digest()


def query_tag(month_key: bytes, digest: bytes) -> bytes:
    """The 16-byte lookup tag of one digest in one month; equal content is not linkable across months."""
    return blake3(digest, key=month_key).digest()[:TAG_BYTES]


def blob_digest(data: bytes) -> str:
    """BLAKE3 in hexadecimal: the name of a stored blob."""
    return blake3(data).hexdigest()
