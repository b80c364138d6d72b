"""Let a device in: check its token and its key, register it with Flower, write it to the ledger.

The steps are ordered so that a crash after any of them is mended by the device's own retry: token spent and
node stored in one transaction, then Flower, then the ledger, each of them idempotent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fedaigc.canonical import Json, canonical_bytes
from fedaigc.errors import FedaigcError, JoinTokenError, NotAuthorised, RequestInvalid
from fedaigc.fields import Fields
from fedaigc.fingerprint import month_of, tag_key
from fedaigc.identifiers import new_node_id
from fedaigc.ledger_entry import LedgerEntry
from fedaigc.sealing import SealingPublicKey
from fedaigc.signing import SIGNATURE_BYTES, PublicKey, b64, unb64
from fedaigc_server.clock import Clock
from fedaigc_server.database import Database
from fedaigc_server.identity import ServerIdentity
from fedaigc_server.record_once import RecordOnce
from fedaigc_server.registry import ACTIVE, PENDING, REVOKED, Node, Registry, flower_key_pem
from fedaigc_server.token_store import StoredToken, TokenStore, token_used

PURPOSE = "enrol"
TAG_KEY_PURPOSE = "tag-key"
MAX_NAME_CHARS = 64
MAX_CAPABILITY_BYTES = 8192


class FlowerNodes(Protocol):
    """The part of SuperLink's Control API that lets nodes in and out."""

    def register(self, public_key_pem: str) -> str:
        """Let a SuperNode in; its Flower node id."""

    def unregister(self, flower_id: str) -> None:
        """Shut a SuperNode out."""

    def registered(self) -> dict[str, str]:
        """Public key (PEM) -> Flower node id."""


@dataclass(frozen=True)
class EnrolRequest:
    """A device's wish to join, checked for form and for possession of its signing key."""

    token_id: str
    secret: str
    name: str
    region: str
    signing_key: PublicKey
    flower_key: str
    sealing_key: SealingPublicKey
    capability: Json

    @classmethod
    def read(cls, record: dict[str, Json]) -> EnrolRequest:
        """Check a parsed body; raises VerificationFailed or RequestInvalid, without quoting the body."""
        fields = Fields(record, "enrolment")
        fields.only(
            *("token_id", "secret", "name", "region", "signing_key", "flower_key", "sealing_key"),
            *("capability", "proof"),
        )
        signing_key = PublicKey.from_text(fields.text("signing_key", 64))
        unsigned = {key: value for key, value in record.items() if key != "proof"}
        signature = unb64(fields.text("proof", 128), SIGNATURE_BYTES)
        signing_key.verify(PURPOSE, canonical_bytes(unsigned), signature)
        capability = fields.inner("capability").record
        if len(canonical_bytes(dict(capability))) > MAX_CAPABILITY_BYTES:
            raise RequestInvalid("The capability is too large", "", "update fedaigc-edge", "capability")
        name = fields.text("name", MAX_NAME_CHARS)
        if not name or not name.isprintable():
            raise RequestInvalid("The device's name is not printable", "", "choose another name", "name")
        return cls(
            token_id=fields.text("token_id", 32),
            secret=fields.text("secret", 64),
            name=name,
            region=fields.text("region", 64),
            signing_key=signing_key,
            flower_key=flower_key_pem(fields.text("flower_key", 1024)),
            sealing_key=SealingPublicKey.from_text(fields.text("sealing_key", 64)),
            capability=dict(capability),
        )


@dataclass(frozen=True)
class Enrolment:
    """The whole act of enrolment and of its withdrawal; blocking, for worker threads."""

    database: Database
    registry: Registry
    tokens: TokenStore
    flower: FlowerNodes
    record: RecordOnce
    identity: ServerIdentity
    log_vkey: str
    poll_s: int
    clock: Clock

    def enrol(self, request: EnrolRequest) -> dict[str, Json]:
        """The answer of `POST /v1/enrol`; the same device may ask again with the same token.

        Raises JoinTokenError, NotAuthorised, RequestInvalid, or Unavailable while Flower restarts.
        """
        node = self._finish(self._admitted(request))
        return {
            "node": node.id,
            "log_vkey": self.log_vkey,
            "release_key": self.identity.release_key.public.text(),
            "tenant_key": self.identity.tenant_key.text(),
            "tag_keys": self.tag_keys(node, [month_of(self.clock.utc())]),
            "poll_s": self.poll_s,
        }

    def tag_keys(self, node: Node, months: Sequence[str]) -> dict[str, str]:
        """Month -> the month's tag key, sealed so that only this device can read it."""
        recipient = SealingPublicKey.from_text(node.sealing_key)
        return {
            month: b64(recipient.seal(TAG_KEY_PURPOSE, tag_key(self.identity.tag_key, month)))
            for month in months
        }

    def revoke(self, node: Node, reason: str) -> None:
        """Withdraw a node's standing for good: registry first, so that it holds even while Flower is down."""
        self.registry.revoke(node.id, reason, self.clock.seconds())
        self.record.record(
            f"revocation:{node.id}",
            LedgerEntry("revocation", node.id, self.clock.minute(), {"reason": reason}),
        )
        if node.flower_id is not None:
            self.flower.unregister(node.flower_id)

    def reconcile(self) -> int:
        """Make Flower agree with the registry, after a crash or a lost Flower database; counts changes."""
        known, changes = self.flower.registered(), 0
        for node in self.registry.nodes():
            present = known.get(node.flower_key)
            if node.standing == REVOKED and present is not None:
                self.flower.unregister(present)
                changes += 1
            elif node.standing == ACTIVE and (present is None or present != node.flower_id):
                changes += self._register_again(node)
        return changes

    def _register_again(self, node: Node) -> int:
        try:
            self.registry.activate(node.id, self.flower.register(node.flower_key))
        except FedaigcError:
            return 0  # One key that Flower refuses must not keep the whole server down.
        return 1

    def _admitted(self, request: EnrolRequest) -> Node:
        token = self.tokens.check(request.token_id, request.secret)
        known = self.registry.by_signing_key(request.signing_key)
        if known is not None and known.standing == REVOKED:
            raise NotAuthorised(
                "This device's key was revoked",
                "a revoked key never comes back",
                "run: fedaigc-edge leave, then join with a new token: that makes new keys",
            )
        if token.used_by is not None:
            if known is None or known.id != token.used_by:
                raise token_used()
            return known
        if request.region != token.region or token.role != "edge":
            raise JoinTokenError(
                "The join token is for another region or role",
                "a token lets a device in only where the operator meant it",
                "ask the operator for a token for this region",
            )
        if known is not None:
            return self._rejoin(known, request, token)
        node = self._new_node(request)
        with self.database.transaction():
            self.tokens.use(token, node.id, self.clock.seconds())
            self.registry.add(node, request.capability)
        return node

    def _rejoin(self, known: Node, request: EnrolRequest, token: StoredToken) -> Node:
        if (known.flower_key, known.sealing_key) != (request.flower_key, request.sealing_key.text()):
            raise RequestInvalid(
                "This device's keys do not belong together",
                "its signing key is enrolled with other keys",
                "run: fedaigc-edge leave, then join with a new token",
            )
        self.tokens.use(token, known.id, self.clock.seconds())
        return known

    def _new_node(self, request: EnrolRequest) -> Node:
        return Node(
            id=new_node_id(),
            name=request.name,
            region=request.region,
            standing=PENDING,
            signing_key=request.signing_key,
            flower_key=request.flower_key,
            sealing_key=request.sealing_key.text(),
            flower_id=None,
            enrolled=self.clock.seconds(),
            last_seen=None,
            version=None,
            policy=None,
            outbox=None,
            reason=None,
        )

    def _finish(self, node: Node) -> Node:
        if node.standing == PENDING:
            flower_id = self.flower.register(node.flower_key)
            self.registry.activate(node.id, flower_id)
            node = replace(node, standing=ACTIVE, flower_id=flower_id)
        body = {"signing_key": node.signing_key.text(), "region": node.region}
        self.record.record(
            f"enrolment:{node.id}", LedgerEntry("enrolment", node.id, self.clock.minute(), body)
        )
        return node
