"""The public port's whole list of routes."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fedaigc_server.exact_routes import ExactRoutes
from fedaigc_server.public.enrol_routes import EnrolRoutes
from fedaigc_server.public.flower_guard import FLEET_PATHS, FlowerGuard
from fedaigc_server.public.ledger_routes import LedgerRoutes
from fedaigc_server.public.policy_routes import PolicyRoutes
from fedaigc_server.public.tap import Tap


def public_app(
    enrol: EnrolRoutes, ledger: LedgerRoutes, policy: PolicyRoutes, guard: FlowerGuard, tap: Path | None
) -> ASGIApp:
    """Everything that a device, or anybody else, can reach; what is not listed here does not exist."""
    routes = ExactRoutes(
        {
            ("GET", "/health"): enrol.health,
            ("GET", "/v1/ca"): enrol.ca,
            ("POST", "/v1/enrol"): enrol.enrol,
            ("POST", "/v1/node/tag-keys"): enrol.tag_keys,
            ("POST", "/v1/node/heartbeat"): enrol.heartbeat,
            ("POST", "/v1/ledger/batches"): ledger.batches,
            ("GET", "/v1/policies/latest"): policy.latest,
            ("GET", "/v1/policies/(?P<version>[0-9]{1,9})"): policy.manifest,
            ("GET", "/v1/blobs/(?P<digest>[0-9a-f]{64})"): policy.blob,
            **{("POST", re.escape(path)): guard for path in sorted(FLEET_PATHS)},
        }
    )
    guarded = OneFraming(routes)
    return Tap(guarded, tap) if tap is not None else guarded


class OneFraming:
    """Refuses a request that frames its body in two ways, on which two readers could disagree (smuggling)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an unambiguous request on; answer 400 and close otherwise."""
        if scope["type"] == "http":
            names = [name.lower() for name, _ in scope["headers"]]
            if b"transfer-encoding" in names and b"content-length" in names:
                refusal = JSONResponse({"detail": "Two framings of one body"}, 400, {"connection": "close"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
