"""What the officer may ask: is content in the ledger, and the proofs. Each search is itself recorded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fedaigc.errors import RequestInvalid
from fedaigc_server.bounded_body import bounded_record
from fedaigc_server.clock import Clock
from fedaigc_server.ledger.ledger import Ledger
from fedaigc_server.ledger.search import (
    officer_checkpoint,
    officer_consistency,
    officer_entry,
    officer_search,
)

MAX_SEARCH_BYTES = 64 << 10


@dataclass(frozen=True)
class OfficerRoutes:
    """The ledger's answers under the officer's token."""

    ledger: Ledger
    clock: Clock

    async def search(self, request: Request) -> Response:
        """`POST /v1/officer/search`: outputs with any of the tags, their receipts and sealed openings."""
        record = await bounded_record(request, MAX_SEARCH_BYTES)
        ask = partial(
            officer_search, self.ledger, record.get("case", ""), record.get("tags"), self.clock.minute()
        )
        return JSONResponse(await to_thread.run_sync(ask))

    async def entry(self, request: Request) -> Response:
        """`GET /v1/officer/entries/{index}`."""
        index = int(request.path_params["index"])
        return JSONResponse(await to_thread.run_sync(officer_entry, self.ledger, index))

    async def checkpoint(self, request: Request) -> Response:
        """`GET /v1/officer/checkpoint`: the present signed tree head."""
        return JSONResponse(await to_thread.run_sync(officer_checkpoint, self.ledger))

    async def consistency(self, request: Request) -> Response:
        """`GET /v1/officer/consistency?first=&second=`: proof that the log only grew between two sizes."""
        sizes = [request.query_params.get(name, "") for name in ("first", "second")]
        if not all(size.isascii() and size.isdecimal() and len(size) < 16 for size in sizes):
            raise RequestInvalid("first and second must be sizes", "", "give two whole numbers", "first")
        ask = partial(officer_consistency, self.ledger, int(sizes[0]), int(sizes[1]))
        return JSONResponse(await to_thread.run_sync(ask))
