"""Devices deliver their outputs to the ledger and get a receipt for each."""

from __future__ import annotations

from dataclasses import dataclass

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc.canonical import Json, parse_record
from fedaigc.fields import Fields
from fedaigc.identifiers import NodeId
from fedaigc_server.ledger.ledger import Ledger
from fedaigc_server.ledger.output_item import MAX_ITEMS, OutputItem
from fedaigc_server.public.node_auth import NodeAuth

MAX_BATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class LedgerRoutes:
    """Idempotent by (node, seq): a batch that is sent twice gets the same entries' receipts."""

    ledger: Ledger
    auth: NodeAuth

    async def batches(self, request: Request) -> Response:
        """`POST /v1/ledger/batches`; 409 when a number comes again with another entry."""
        node, body = await self.auth.signed(request, MAX_BATCH_BYTES)
        return JSONResponse({"receipts": await to_thread.run_sync(self._append, node.id, body)})

    def _append(self, node: NodeId, body: bytes) -> list[dict[str, Json]]:
        listed = Fields(parse_record(body), "batch").listed("items", MAX_ITEMS)
        placed = self.ledger.append_outputs(node, [OutputItem.from_json(item) for item in listed])
        receipts = self.ledger.receipts([index for _, index in placed])
        return [
            {"seq": seq, "index": index, "receipt": receipt}
            for (seq, index), receipt in zip(placed, receipts, strict=True)
        ]
