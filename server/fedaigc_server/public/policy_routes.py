"""Downloads: signed policy manifests, and the blobs that they name."""

from __future__ import annotations

from dataclasses import dataclass

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from fedaigc.errors import RequestInvalid
from fedaigc.identifiers import PolicyVersion
from fedaigc_server.blobs import Blobs
from fedaigc_server.error_answers import error_answer
from fedaigc_server.policy.versions import PolicyVersions
from fedaigc_server.public.node_auth import NodeAuth

BINARY = "application/octet-stream"


@dataclass(frozen=True)
class PolicyRoutes:
    """What a device needs to move to another policy version; it verifies every byte itself."""

    policies: PolicyVersions
    blobs: Blobs
    auth: NodeAuth

    async def latest(self, request: Request) -> Response:
        """`GET /v1/policies/latest`: the newest signed manifest, or 204 while only the base model exists."""
        await self.auth.signed(request)
        latest = await to_thread.run_sync(self.policies.latest)
        if latest is None:
            return Response(status_code=204)
        data = await to_thread.run_sync(self.policies.manifest_bytes, latest.version)
        return Response(data, media_type=BINARY)

    async def manifest(self, request: Request) -> Response:
        """`GET /v1/policies/{n}`."""
        await self.auth.signed(request)
        version = PolicyVersion(int(request.path_params["version"]))
        latest = await to_thread.run_sync(self.policies.latest)
        if latest is None or not 1 <= version <= latest.version:
            return error_answer(
                RequestInvalid("There is no such policy version", "", "ask for the latest", "version"), 404
            )
        data = await to_thread.run_sync(self.policies.manifest_bytes, version)
        return Response(data, media_type=BINARY)

    async def blob(self, request: Request) -> Response:
        """`GET /v1/blobs/{digest}`: bytes whose BLAKE3 is the name."""
        await self.auth.signed(request)
        digest = request.path_params["digest"]
        if not await to_thread.run_sync(self.blobs.has, digest):
            return error_answer(RequestInvalid("There is no such blob", "", "fetch the manifest again"), 404)
        return Response(await to_thread.run_sync(self.blobs.get, digest), media_type=BINARY)
