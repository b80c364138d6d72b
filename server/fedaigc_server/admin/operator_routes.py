"""What the operator may do: make tokens, see and revoke nodes, run rounds, look at policies and health."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc.errors import RequestInvalid
from fedaigc.fields import Fields
from fedaigc.identifiers import PolicyVersion, node_id
from fedaigc.manifest import PolicyManifest
from fedaigc.signing import PublicKey
from fedaigc_server.admin.operator_limits import (
    MAX_DEADLINE_S,
    MAX_NODES,
    MAX_REASON_CHARS,
    MAX_REGION_CHARS,
    MAX_TOKEN_HOURS,
)
from fedaigc_server.bounded_body import bounded_record
from fedaigc_server.clock import Clock
from fedaigc_server.enrolment import Enrolment
from fedaigc_server.policy.versions import PolicyVersions
from fedaigc_server.registry import Registry
from fedaigc_server.rounds.round_store import RoundStore, round_json
from fedaigc_server.rounds.round_watch import RoundWatch
from fedaigc_server.rounds.run_round import RunRound
from fedaigc_server.token_store import TokenStore

MAX_BODY_BYTES = 16 << 10


@dataclass(frozen=True)
class OperatorRoutes:
    """The endpoints under the operator's token."""

    tokens: TokenStore
    enrolment: Enrolment
    registry: Registry
    rounds: RunRound
    store: RoundStore
    watch: RoundWatch
    policies: PolicyVersions
    release_public: PublicKey
    address: str
    ca_sha256: str
    clock: Clock
    status_of: Callable[[], dict[str, Any]]

    async def create_token(self, request: Request) -> Response:
        """`POST /v1/tokens`: the token, shown this once."""
        fields = Fields(await bounded_record(request, MAX_BODY_BYTES), "token")
        region, role = fields.text("region", MAX_REGION_CHARS), fields.text("role", 16)
        hours = fields.number("hours", 0.0, MAX_TOKEN_HOURS)
        if not region or not region.isprintable():
            raise RequestInvalid("The region is not printable", "", "choose another name", "region")
        if role != "edge":
            raise RequestInvalid("There is no such role", "the only role is edge", "use edge", "role")

        def create() -> dict[str, Any]:
            token = self.tokens.create(
                self.address, self.ca_sha256, region, role, self.clock.seconds(), int(hours * 3600)
            )
            return {"token": token.encode(), "expires": token.expires, "address": token.address}

        return JSONResponse(await to_thread.run_sync(create))

    async def nodes(self, request: Request) -> Response:
        """`GET /v1/nodes`."""
        found = await to_thread.run_sync(self.registry.nodes)
        return JSONResponse({"nodes": [node.as_json() for node in found]})

    async def revoke(self, request: Request) -> Response:
        """`POST /v1/nodes/{id}/revoke`: at once and for good."""
        fields = Fields(await bounded_record(request, MAX_BODY_BYTES), "revocation")
        reason = fields.text("reason", MAX_REASON_CHARS)
        wanted = node_id(request.path_params["node"])
        node = await to_thread.run_sync(self.registry.node, wanted)
        if node is None:
            raise RequestInvalid("There is no such node", "", "list them: fedaigc-server node list", "node")
        await to_thread.run_sync(self.enrolment.revoke, node, reason)
        return JSONResponse({"node": wanted, "standing": "revoked"})

    async def status(self, request: Request) -> Response:
        """`GET /v1/status`."""
        return JSONResponse(await to_thread.run_sync(self.status_of))

    async def create_round(self, request: Request) -> Response:
        """`POST /v1/rounds`: begins a round and answers at once with its name."""
        fields = Fields(await bounded_record(request, MAX_BODY_BYTES), "round")
        min_nodes = fields.integer("min_nodes", 1, MAX_NODES)
        deadline_s = fields.integer("deadline_s", 1, MAX_DEADLINE_S)
        round_id = await to_thread.run_sync(self.rounds.create, min_nodes, deadline_s)
        self.watch.wake()
        return JSONResponse({"round": round_id})

    async def list_rounds(self, request: Request) -> Response:
        """`GET /v1/rounds`: the newest, without what became of their nodes."""
        found = await to_thread.run_sync(self.store.rounds)
        return JSONResponse({"rounds": [round_json(item) for item in found]})

    async def show_round(self, request: Request) -> Response:
        """`GET /v1/rounds/{id}`: its state, and what became of each node."""
        found = await to_thread.run_sync(self.store.round, request.path_params["round"])
        updates = await to_thread.run_sync(self.store.updates, found.id)
        return JSONResponse(round_json(found, updates))

    async def list_policies(self, request: Request) -> Response:
        """`GET /v1/policies`: every version, oldest first."""
        return JSONResponse({"policies": await to_thread.run_sync(self._policies)})

    def _policies(self) -> list[dict[str, Any]]:
        latest = self.policies.latest()
        versions = range(1, latest.version + 1) if latest else ()
        return [
            dict(
                vars(
                    PolicyManifest.open(
                        self.policies.manifest_bytes(PolicyVersion(number)), self.release_public
                    )
                )
            )
            for number in versions
        ]
