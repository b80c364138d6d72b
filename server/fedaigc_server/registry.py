"""Which nodes exist, their keys and standing; the mapping from a pseudonym to a device lives only here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from fedaigc.canonical import Json, canonical_bytes
from fedaigc.errors import NotAuthorised, RequestInvalid
from fedaigc.identifiers import NodeId
from fedaigc.signing import PublicKey
from fedaigc_server.database import Database, Row

SCHEMA = """
CREATE TABLE IF NOT EXISTS nodes (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, region TEXT NOT NULL,
    standing TEXT NOT NULL CHECK (standing IN ('pending', 'active', 'revoked')),
    signing_key TEXT NOT NULL UNIQUE, flower_key TEXT NOT NULL UNIQUE, sealing_key TEXT NOT NULL,
    flower_id TEXT UNIQUE, capability TEXT NOT NULL, enrolled INTEGER NOT NULL,
    last_seen INTEGER, version TEXT, policy INTEGER, outbox INTEGER, reason TEXT, revoked INTEGER
) STRICT;
"""

PENDING, ACTIVE, REVOKED = "pending", "active", "revoked"


@dataclass(frozen=True)
class Node:
    """One enrolled edge installation; times are Unix seconds."""

    id: NodeId
    name: str
    region: str
    standing: str
    signing_key: PublicKey
    flower_key: str
    """The SuperNode's public key as PEM, the form that Flower's headers carry."""
    sealing_key: str
    flower_id: str | None
    enrolled: int
    last_seen: int | None
    version: str | None
    policy: int | None
    outbox: int | None
    reason: str | None

    def as_json(self) -> dict[str, Json]:
        """What `fedaigc-server node list --json` shows of it."""
        return {
            "node": self.id,
            "name": self.name,
            "region": self.region,
            "standing": self.standing,
            "enrolled": self.enrolled,
            "last_seen": self.last_seen,
            "version": self.version,
            "policy": self.policy,
            "outbox": self.outbox,
            "reason": self.reason,
        }


def flower_key_pem(openssh: str) -> str:
    """A SuperNode's OpenSSH public key as PEM; raises RequestInvalid unless it is on a NIST curve."""
    try:
        key = load_ssh_public_key(openssh.encode("ascii"))
    except (ValueError, UnsupportedAlgorithm, UnicodeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise RequestInvalid(
            "The Flower key is not an EC public key", "OpenSSH text was expected", "join again", "flower_key"
        )
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")


class Registry:
    """The nodes table; thread-safe through its database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def node(self, node: str) -> Node | None:
        """The node with this pseudonym."""
        return self._one("id = ?", node)

    def by_signing_key(self, key: PublicKey) -> Node | None:
        """The node that enrolled with this signing key, whatever its standing."""
        return self._one("signing_key = ?", key.text())

    def by_flower_id(self, flower_id: str) -> Node | None:
        """The node behind a Flower node id."""
        return self._one("flower_id = ?", flower_id)

    def by_flower_key(self, pem: str) -> Node | None:
        """The node whose SuperNode has this public key."""
        return self._one("flower_key = ?", pem)

    def nodes(self) -> list[Node]:
        """Every node, oldest first."""
        return [_node(row) for row in self._database.rows("SELECT * FROM nodes ORDER BY enrolled, id")]

    def active(self) -> list[Node]:
        """The nodes that may take part in rounds."""
        return [node for node in self.nodes() if node.standing == ACTIVE and node.flower_id]

    def add(self, node: Node, capability: Json) -> None:
        """Store a new node; raises RequestInvalid when one of its keys belongs to another node."""
        with self._database.transaction() as write:
            taken = write.execute(
                "SELECT 1 FROM nodes WHERE signing_key = ? OR flower_key = ?",
                (node.signing_key.text(), node.flower_key),
            ).fetchone()
            if taken:
                raise RequestInvalid(
                    "A key of this device belongs to another node",
                    "every installation makes its own keys",
                    "run: fedaigc-edge leave, then join with a new token",
                )
            write.execute(
                "INSERT INTO nodes (id, name, region, standing, signing_key, flower_key, sealing_key,"
                " flower_id, capability, enrolled) VALUES (?,?,?,?,?,?,?,?,?,?)",
                (
                    node.id,
                    node.name,
                    node.region,
                    node.standing,
                    node.signing_key.text(),
                    node.flower_key,
                    node.sealing_key,
                    node.flower_id,
                    canonical_bytes(capability).decode(),
                    node.enrolled,
                ),
            )

    def activate(self, node: NodeId, flower_id: str) -> None:
        """Note the Flower node id; a pending node becomes active, a revoked one stays revoked."""
        with self._database.transaction() as write:
            # A Flower database that was lost and filled again may give an old id to another node.
            write.execute(
                "UPDATE nodes SET flower_id = NULL WHERE flower_id = ? AND id != ?", (flower_id, node)
            )
            write.execute(
                "UPDATE nodes SET flower_id = ?, standing = CASE standing WHEN 'pending' THEN 'active'"
                " ELSE standing END WHERE id = ?",
                (flower_id, node),
            )

    def revoke(self, node: NodeId, reason: str, now: int) -> None:
        """Take the node's standing away for good; the first reason stays."""
        with self._database.transaction() as write:
            write.execute(
                "UPDATE nodes SET standing = 'revoked', reason = ?, revoked = ?"
                " WHERE id = ? AND standing != 'revoked'",
                (reason, now, node),
            )

    def seen(self, node: NodeId, now: int, version: str, policy: int, outbox: int) -> None:
        """Note a heartbeat."""
        with self._database.transaction() as write:
            write.execute(
                "UPDATE nodes SET last_seen = ?, version = ?, policy = ?, outbox = ? WHERE id = ?",
                (now, version, policy, outbox, node),
            )

    def capability(self, node: NodeId) -> dict[str, Any]:
        """What the device said about itself when it enrolled."""
        row = self._database.row("SELECT capability FROM nodes WHERE id = ?", (node,))
        return dict(json.loads(row["capability"])) if row else {}

    def _one(self, condition: str, value: str) -> Node | None:
        row = self._database.row(f"SELECT * FROM nodes WHERE {condition}", (value,))  # noqa: S608 (constants)
        return _node(row) if row else None


def require_active(node: Node | None) -> Node:
    """The node itself when it is in good standing; else NotAuthorised saying how to get back in."""
    if node is None:
        raise NotAuthorised(
            "This server does not know this node",
            "it never enrolled here, or the server's registry was replaced",
            "ask the operator for a new token, then run: fedaigc-edge leave; fedaigc-edge join --token TOKEN",
        )
    if node.standing == REVOKED:
        raise NotAuthorised(
            "This node was revoked",
            "the operator withdrew its enrolment",
            "ask the operator for a new token, then run: fedaigc-edge leave; fedaigc-edge join --token TOKEN",
        )
    return node


def _node(row: Row) -> Node:
    return Node(
        id=NodeId(row["id"]),
        name=row["name"],
        region=row["region"],
        standing=row["standing"],
        signing_key=PublicKey.from_text(row["signing_key"]),
        flower_key=row["flower_key"],
        sealing_key=row["sealing_key"],
        flower_id=row["flower_id"],
        enrolled=row["enrolled"],
        last_seen=row["last_seen"],
        version=row["version"],
        policy=row["policy"],
        outbox=row["outbox"],
        reason=row["reason"],
    )
