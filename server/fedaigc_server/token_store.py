"""Join tokens as the server keeps them: a hash, an expiry, and who used it."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from blake3 import blake3

from fedaigc.errors import JoinTokenError
from fedaigc.identifiers import NodeId
from fedaigc.join_token import JoinToken, new_secret
from fedaigc_server.database import Database

SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, secret_hash BLOB NOT NULL, region TEXT NOT NULL, role TEXT NOT NULL,
    created INTEGER NOT NULL, expires INTEGER NOT NULL, used_by TEXT, used INTEGER
) STRICT;
"""


@dataclass(frozen=True)
class StoredToken:
    """What the server remembers of one token; `used_by` is the node that it let in."""

    id: str
    region: str
    role: str
    expires: int
    used_by: NodeId | None


class TokenStore:
    """The tokens table; a token's secret is shown once, at creation, and never stored."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self, address: str, ca_sha256: str, region: str, role: str, now: int, lasts_s: int
    ) -> JoinToken:
        """A fresh single-use token for `address` (`host:port`)."""
        token = JoinToken(address, ca_sha256, new_secret(), now + lasts_s, region, role)
        with self._database.transaction() as write:
            write.execute(
                "INSERT INTO tokens (id, secret_hash, region, role, created, expires) VALUES (?,?,?,?,?,?)",
                (token.token_id, _hash(token.secret), region, role, now, token.expires),
            )
        return token

    def check(self, token_id: str, secret: str) -> StoredToken:
        """The token with this id and secret; an unknown id and a wrong secret give the same JoinTokenError.

        Whether it has expired or was used is for the caller to decide: a retry with it is legitimate.
        """
        row = self._database.row("SELECT * FROM tokens WHERE id = ?", (token_id,))
        expected = row["secret_hash"] if row else bytes(32)
        if not hmac.compare_digest(expected, _hash(secret)) or row is None:
            raise JoinTokenError(
                "This server does not know the join token",
                "another server made it, or it was copied wrongly",
                "ask the operator for a new one: fedaigc-server token create",
            )
        used_by = NodeId(row["used_by"]) if row["used_by"] else None
        return StoredToken(row["id"], row["region"], row["role"], row["expires"], used_by)

    def use(self, token: StoredToken, node: NodeId, now: int) -> None:
        """Spend the token on `node`; raises JoinTokenError when another spent it first or it has expired."""
        if now > token.expires:
            raise JoinTokenError(
                "The join token has expired",
                f"it was valid until {token.expires} (Unix time)",
                "ask the operator for a new one: fedaigc-server token create",
            )
        with self._database.transaction() as write:
            done = write.execute(
                "UPDATE tokens SET used_by = ?, used = ? WHERE id = ? AND used_by IS NULL",
                (node, now, token.id),
            )
            if done.rowcount != 1:
                raise token_used()


def token_used() -> JoinTokenError:
    """The refusal of a token that has let another device in."""
    return JoinTokenError(
        "The join token was already used",
        "each token lets one device in",
        "ask the operator for a new one: fedaigc-server token create",
    )


def _hash(secret: str) -> bytes:
    # 128 random bits need no slow hash: they cannot be guessed, only read, and this prevents reading.
    return blake3(b"fedaigc token secret v1" + secret.encode("utf-8", "replace")).digest()
