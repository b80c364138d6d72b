"""The admin port's whole list of routes, each under the token of one role."""

from __future__ import annotations

from fedaigc_server.admin.bearer import Bearer
from fedaigc_server.admin.officer_routes import OfficerRoutes
from fedaigc_server.admin.operator_routes import OperatorRoutes
from fedaigc_server.exact_routes import ExactRoutes


def admin_app(operator: OperatorRoutes, officer: OfficerRoutes, bearer: Bearer) -> ExactRoutes:
    """The application for the loopback admin port."""
    own, search = bearer.for_operator, bearer.for_officer
    return ExactRoutes(
        {
            ("POST", "/v1/tokens"): own(operator.create_token),
            ("GET", "/v1/nodes"): own(operator.nodes),
            ("POST", "/v1/nodes/(?P<node>n-[0-9a-f]{16})/revoke"): own(operator.revoke),
            ("GET", "/v1/status"): own(operator.status),
            ("POST", "/v1/rounds"): own(operator.create_round),
            ("GET", "/v1/rounds"): own(operator.list_rounds),
            ("GET", "/v1/rounds/(?P<round>r-[0-9a-f]{16})"): own(operator.show_round),
            ("GET", "/v1/policies"): own(operator.list_policies),
            ("POST", "/v1/officer/search"): search(officer.search),
            ("GET", "/v1/officer/entries/(?P<index>[0-9]{1,15})"): search(officer.entry),
            ("GET", "/v1/officer/checkpoint"): search(officer.checkpoint),
            ("GET", "/v1/officer/consistency"): search(officer.consistency),
        }
    )
