"""The public application over a site with one enrolled device and a recording SuperLink."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from fedaigc_server.public.app import public_app
from fedaigc_server.public.enrol_routes import EnrolRoutes
from fedaigc_server.public.flower_guard import KEY_HEADER, FlowerGuard
from fedaigc_server.public.ledger_routes import LedgerRoutes
from fedaigc_server.public.node_auth import NodeAuth
from fedaigc_server.public.policy_routes import PolicyRoutes
from fedaigc_server.rate_limit import RateLimit
from tests.server.conftest import Site
from tests.server.fake_device import FakeDevice


@dataclass
class SuperLink(httpx.AsyncBaseTransport):
    """Records what the guard forwards; answers with what a test sets."""

    seen: list[tuple[str, str, bytes, httpx.Headers]] = field(default_factory=list)
    status: int = 200
    body: bytes = b"flower's answer"
    headers: dict[str, str] = field(default_factory=dict)
    failure: Exception | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.failure is not None:
            raise self.failure
        body = await request.aread()
        self.seen.append((request.method, request.url.raw_path.decode(), body, request.headers))
        return httpx.Response(self.status, headers=self.headers, stream=httpx.ByteStream(self.body))


@dataclass
class Public:
    """The application, who may speak to it, and what reached Flower."""

    app: ASGIApp
    site: Site
    device: FakeDevice
    superlink: SuperLink

    def flower_headers(self, device: FakeDevice | None = None) -> dict[str, str]:
        """The header by which a SuperNode names its key."""
        node = self.site.stores.registry.by_signing_key((device or self.device).signing.public)
        pem = node.flower_key if node else "-----BEGIN PUBLIC KEY-----"
        return {KEY_HEADER: base64.b64encode(pem.encode()).decode()}


def build_public(site: Site, superlink: SuperLink, tap: Path | None = None) -> ASGIApp:
    auth = NodeAuth(site.stores.registry, site.clock)
    guard = FlowerGuard("https://127.0.0.1:1", ssl.create_default_context(), site.stores.registry, superlink)
    ca_file = site.data / "ca.crt"
    ca_file.write_bytes(b"-----BEGIN CERTIFICATE-----")
    limit = RateLimit(600, 100, lambda: 0.0)
    enrol = EnrolRoutes(
        site.enrolment, site.stores.registry, site.stores.policies, auth, limit, ca_file, site.clock
    )
    return public_app(
        enrol,
        LedgerRoutes(site.stores.ledger, auth),
        PolicyRoutes(site.stores.policies, site.stores.blobs, auth),
        guard,
        tap,
    )


@pytest.fixture
def public(site: Site) -> Public:
    superlink = SuperLink()
    return Public(build_public(site, superlink), site, site.enrolled(), superlink)
