"""The admin application over a site."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.types import ASGIApp

from fedaigc_server.admin.app import admin_app
from fedaigc_server.admin.bearer import Bearer
from fedaigc_server.admin.officer_routes import OfficerRoutes
from fedaigc_server.admin.operator_routes import OperatorRoutes
from fedaigc_server.rounds.round_watch import RoundWatch
from tests.server.asgi_call import Answer, call
from tests.server.conftest import CA, Site
from tests.server.rounds.conftest import Learning

OPERATOR, OFFICER = "operator-token", "officer-token"


@dataclass
class Admin:
    """The application and how the two roles call it."""

    app: ASGIApp
    site: Site

    def operator(self, method: str, path: str, body: Any = None, token: str = OPERATOR) -> Answer:
        data = b"" if body is None else json.dumps(body).encode()
        return call(self.app, method, path, data, {"authorization": f"Bearer {token}"})

    def officer(self, method: str, path: str, body: Any = None) -> Answer:
        return self.operator(method, path, body, OFFICER)


@pytest.fixture
def admin(site: Site) -> Admin:
    stores, rounds = site.stores, Learning(site).rounds
    operator = OperatorRoutes(
        tokens=stores.tokens,
        enrolment=site.enrolment,
        registry=stores.registry,
        rounds=rounds,
        store=stores.rounds,
        watch=RoundWatch(stores.rounds, rounds, site.flower, 3, site.clock),
        policies=stores.policies,
        release_public=site.identity.release_key.public,
        address="dc.example.org:8443",
        ca_sha256=CA,
        clock=site.clock,
        status_of=lambda: {"version": "0"},
    )
    app = admin_app(operator, OfficerRoutes(stores.ledger, site.clock), Bearer(OPERATOR, OFFICER))
    return Admin(app, site)
