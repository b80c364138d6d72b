"""Join the opened parts into the three applications that the server serves."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from fedaigc import __version__
from fedaigc_server.admin.app import admin_app
from fedaigc_server.admin.bearer import Bearer
from fedaigc_server.admin.officer_routes import OfficerRoutes
from fedaigc_server.admin.operator_routes import OperatorRoutes
from fedaigc_server.certificates import CertificateFiles
from fedaigc_server.clock import Clock
from fedaigc_server.enrolment import Enrolment
from fedaigc_server.federation.processes import FlowerProcesses
from fedaigc_server.identity import ServerIdentity
from fedaigc_server.public.app import public_app
from fedaigc_server.public.enrol_routes import EnrolRoutes
from fedaigc_server.public.flower_guard import FlowerGuard
from fedaigc_server.public.ledger_routes import LedgerRoutes
from fedaigc_server.public.node_auth import NodeAuth
from fedaigc_server.public.policy_routes import PolicyRoutes
from fedaigc_server.rate_limit import RateLimit
from fedaigc_server.rounds.release import Release
from fedaigc_server.rounds.round_record import RoundRecord
from fedaigc_server.rounds.round_socket import RoundSocket
from fedaigc_server.rounds.round_watch import RoundWatch
from fedaigc_server.rounds.run_round import RunRound
from fedaigc_server.settings import ServerSettings
from fedaigc_server.stores import Stores

ENROL_BURST = 10


@dataclass(frozen=True)
class Parts:
    """What the service starts and stops."""

    public: ASGIApp
    admin: ASGIApp
    rounds: ASGIApp
    watch: RoundWatch
    enrolment: Enrolment
    guard: FlowerGuard


@dataclass(frozen=True)
class Assembly:
    """Everything that the parts are made of; `address` is the `host:port` that tokens carry."""

    settings: ServerSettings
    identity: ServerIdentity
    certificates: CertificateFiles
    stores: Stores
    flower: FlowerProcesses
    address: str
    tap: Path | None
    clock: Clock

    def parts(self) -> Parts:
        """Build every part; nothing runs yet."""
        stores, enrolment, rounds = self.stores, self._enrolment(), self._rounds()
        watch = RoundWatch(stores.rounds, rounds, self.flower.api, self.settings.round_attempts, self.clock)
        auth = NodeAuth(stores.registry, self.clock)
        limit = RateLimit(self.settings.enrol_per_minute, ENROL_BURST, time.monotonic)
        guard = FlowerGuard(self.flower.url, self._trust(), stores.registry)
        enrol = EnrolRoutes(
            enrolment, stores.registry, stores.policies, auth, limit, self.certificates.ca, self.clock
        )
        return Parts(
            public=public_app(
                enrol,
                LedgerRoutes(stores.ledger, auth),
                PolicyRoutes(stores.policies, stores.blobs, auth),
                guard,
                self.tap,
            ),
            admin=admin_app(
                self._operator(enrolment, rounds, watch),
                OfficerRoutes(stores.ledger, self.clock),
                Bearer(self.identity.operator_token, self.identity.officer_token),
            ),
            rounds=RoundSocket(rounds).app(),
            watch=watch,
            enrolment=enrolment,
            guard=guard,
        )

    def _enrolment(self) -> Enrolment:
        return Enrolment(
            database=self.stores.database,
            registry=self.stores.registry,
            tokens=self.stores.tokens,
            flower=self.flower.api,
            record=self.stores.record,
            identity=self.identity,
            log_vkey=self.stores.signer.vkey(),
            poll_s=self.settings.poll_s,
            clock=self.clock,
        )

    def _rounds(self) -> RunRound:
        stores = self.stores
        return RunRound(
            store=stores.rounds,
            registry=stores.registry,
            files=stores.updates,
            record=RoundRecord(stores.record, self.clock),
            release=Release(stores.policies, stores.blobs, self.identity.release_key.public),
            learning=self.settings.learning,
            release_key=self.identity.release_key,
            clock=self.clock,
        )

    def _operator(self, enrolment: Enrolment, rounds: RunRound, watch: RoundWatch) -> OperatorRoutes:
        return OperatorRoutes(
            tokens=self.stores.tokens,
            enrolment=enrolment,
            registry=self.stores.registry,
            rounds=rounds,
            store=self.stores.rounds,
            watch=watch,
            policies=self.stores.policies,
            release_public=self.identity.release_key.public,
            address=self.address,
            ca_sha256=self.certificates.ca_sha256,
            clock=self.clock,
            status_of=self._status(),
        )

    def _status(self) -> Callable[[], dict[str, Any]]:
        started = self.clock.seconds()

        def status() -> dict[str, Any]:
            nodes = self.stores.registry.nodes()
            latest = self.stores.policies.latest()
            return {
                "version": __version__,
                "uptime_s": self.clock.seconds() - started,
                "public": self.address,
                "ca_sha256": self.certificates.ca_sha256,
                "log_vkey": self.stores.signer.vkey(),
                "nodes": {
                    standing: sum(node.standing == standing for node in nodes)
                    for standing in ("pending", "active", "revoked")
                },
                "ledger_size": self.stores.ledger.size,
                "policy": latest.version if latest else 0,
                "rounds_running": [found.id for found in self.stores.rounds.running()],
                "flower": self.flower.status(),
            }

        return status

    def _trust(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(self.certificates.ca)
        return context
