"""One HTTP form for every error of our tree, on all three faces of the server."""

from __future__ import annotations

import logging

from starlette.requests import Request
from starlette.responses import JSONResponse

from fedaigc.errors import (
    Busy,
    FedaigcError,
    JoinTokenError,
    LedgerError,
    NotAuthorised,
    ProcessFailed,
    RequestInvalid,
    RoundFailed,
    StorageError,
    Unavailable,
    UpdateRefused,
    VerificationFailed,
)

log = logging.getLogger(__name__)

_STATUS: dict[type[FedaigcError], int] = {
    RequestInvalid: 400,
    VerificationFailed: 400,
    JoinTokenError: 403,
    NotAuthorised: 403,
    LedgerError: 409,
    RoundFailed: 409,
    UpdateRefused: 422,
    Busy: 429,
    StorageError: 503,
    Unavailable: 503,
    ProcessFailed: 503,
}


def status_of(error: FedaigcError) -> int:
    """The HTTP status of an error; 500 for what only the operator can mend."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def error_answer(error: FedaigcError, status: int | None = None) -> JSONResponse:
    """The error as `{"error": {...}}`."""
    headers = {"retry-after": str(error.retry_after_s)} if isinstance(error, Busy) else None
    return JSONResponse({"error": error.as_json()}, status or status_of(error), headers)


def answer_exception(request: Request, error: Exception) -> JSONResponse:
    """Answer whatever an endpoint raised; an unforeseen error is logged by its type, never its text."""
    if isinstance(error, FedaigcError):
        if status_of(error) >= 500:
            log.error("event=request_failed path=%s code=%s", request.url.path, error.code)
        return error_answer(error)
    log.error("event=request_failed path=%s type=%s", request.url.path, type(error).__name__)
    return error_answer(FedaigcError("The server failed", "an unforeseen error", "tell the operator"), 500)
