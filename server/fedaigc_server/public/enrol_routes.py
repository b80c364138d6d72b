"""Joining: the CA for a first look, enrolment by token, heartbeats, and the month's tag keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc import __version__
from fedaigc.canonical import parse_record
from fedaigc.errors import RequestInvalid
from fedaigc.fields import Fields
from fedaigc_server.bounded_body import bounded_record
from fedaigc_server.clock import Clock
from fedaigc_server.enrolment import Enrolment, EnrolRequest
from fedaigc_server.policy.versions import PolicyVersions
from fedaigc_server.public.node_auth import NodeAuth
from fedaigc_server.rate_limit import RateLimit
from fedaigc_server.registry import Registry

MAX_ENROL_BYTES = 32 << 10
MAX_SMALL_BYTES = 4 << 10
MAX_MONTHS = 3
_MONTH = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}")
"""The operator's terminal shows it: nothing that a terminal could obey."""


@dataclass(frozen=True)
class EnrolRoutes:
    """The endpoints that let a device in and keep in touch with it."""

    enrolment: Enrolment
    registry: Registry
    policies: PolicyVersions
    auth: NodeAuth
    limit: RateLimit
    ca_file: Path
    clock: Clock

    async def health(self, request: Request) -> Response:
        """`GET /health`: the server runs, and which version."""
        return JSONResponse({"status": "ok", "version": __version__})

    async def ca(self, request: Request) -> Response:
        """`GET /v1/ca`: the CA, which a device compares with its token before it trusts anything else."""
        pem = await to_thread.run_sync(self.ca_file.read_bytes)
        return Response(pem, media_type="application/x-pem-file")

    async def enrol(self, request: Request) -> Response:
        """`POST /v1/enrol`."""
        self.limit.take(request.client.host if request.client else "")
        record = await bounded_record(request, MAX_ENROL_BYTES)
        wish = await to_thread.run_sync(EnrolRequest.read, record)
        return JSONResponse(await to_thread.run_sync(self.enrolment.enrol, wish))

    async def tag_keys(self, request: Request) -> Response:
        """`POST /v1/node/tag-keys`: at most three months at a time."""
        node, body = await self.auth.signed(request, MAX_SMALL_BYTES)
        months = Fields(parse_record(body), "request").listed("months", MAX_MONTHS)
        if not all(isinstance(month, str) and _MONTH.fullmatch(month) for month in months):
            raise RequestInvalid("A month is not of the form YYYY-MM", "", "update fedaigc-edge", "months")
        sealed = await to_thread.run_sync(self.enrolment.tag_keys, node, months)
        return JSONResponse({"tag_keys": sealed})

    async def heartbeat(self, request: Request) -> Response:
        """`POST /v1/node/heartbeat`: notes that the node lives, answers which policy is the latest."""
        node, body = await self.auth.signed(request, MAX_SMALL_BYTES)
        fields = Fields(parse_record(body), "heartbeat")
        seen = partial(
            self.registry.seen,
            node.id,
            self.clock.seconds(),
            _version(fields),
            fields.integer("policy"),
            fields.integer("outbox"),
        )
        await to_thread.run_sync(seen)
        latest = await to_thread.run_sync(self.policies.latest)
        return JSONResponse({"standing": node.standing, "policy": latest.version if latest else 0})


def _version(fields: Fields) -> str:
    version = fields.text("version", 32)
    if not _VERSION.fullmatch(version):
        raise RequestInvalid(
            "The version is not one",
            "letters, digits and . + _ - are allowed",
            "update fedaigc-edge",
            "version",
        )
    return version
