"""Let only enrolled nodes in good standing through, each by its own signature."""

from __future__ import annotations

from dataclasses import dataclass

from anyio import to_thread
from starlette.requests import Request

from fedaigc.errors import NotAuthorised
from fedaigc.request_signature import check_signed, claimed_node
from fedaigc_server.bounded_body import bounded_body
from fedaigc_server.clock import Clock
from fedaigc_server.registry import PENDING, Node, Registry, require_active


@dataclass(frozen=True)
class NodeAuth:
    """Checks `fedaigc-node`, `fedaigc-time` and `fedaigc-signature` of a request."""

    registry: Registry
    clock: Clock

    async def signed(self, request: Request, limit: int = 0) -> tuple[Node, bytes]:
        """The node that signed this request, and its body of at most `limit` bytes.

        Raises NotAuthorised for an unknown, revoked or half-enrolled node and for a wrong signature.
        """
        claimed = claimed_node(request.headers)
        node = require_active(await to_thread.run_sync(self.registry.node, claimed))
        if node.standing == PENDING:
            raise NotAuthorised(
                "This node's enrolment is not finished",
                "it was interrupted",
                "run the same fedaigc-edge join again",
            )
        body = await bounded_body(request, limit)
        query = request.scope["query_string"].decode("ascii", "replace")
        path = request.scope["path"] + (f"?{query}" if query else "")
        check_signed(node.signing_key, request.headers, request.method, path, body, self.clock.seconds())
        return node, body
