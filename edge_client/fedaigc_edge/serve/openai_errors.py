"""Every error as OpenAI's programs expect it: a status, and {"error": {message, type, param, code}}."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedaigc.errors import (
    BudgetExceeded,
    Busy,
    Denied,
    FedaigcError,
    LedgerError,
    NotAuthorised,
    RequestInvalid,
    Unavailable,
)
from fedaigc_edge.serve.request import BodyTooLarge, UnknownModel

INVALID = "invalid_request_error"
RATE_LIMIT = "rate_limit_error"
SERVER = "server_error"
RETRY_WHEN_UNAVAILABLE_S = 2

_FORMS: tuple[tuple[tuple[type[FedaigcError], ...], tuple[int, str]], ...] = (
    ((UnknownModel,), (404, INVALID)),
    ((BodyTooLarge,), (413, INVALID)),
    ((RequestInvalid,), (400, INVALID)),
    ((BudgetExceeded, Busy), (429, RATE_LIMIT)),
    ((NotAuthorised, LedgerError, Unavailable), (503, SERVER)),
    ((FedaigcError,), (500, SERVER)),
)
"""The first kind that fits gives status and type."""


@dataclass(frozen=True)
class ErrorAnswer:
    """An HTTP status, the JSON body and extra headers."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def error_answer(error: Exception, judged: str = "messages") -> ErrorAnswer:
    """What a caller is told of `error`. Of an error that is not ours, only that there was one.

    `judged` is the field that holds what the gate judges.
    """
    if not isinstance(error, FedaigcError):
        return answer_of(500, SERVER, "internal_error", "Something went wrong on this device; see its log.")
    if isinstance(error, Denied):
        answer = answer_of(400, INVALID, error.code, f"{error.what} (rule {error.rule})", judged)
        answer.body["error"]["rule"] = error.rule
        return answer
    status, kind = next(form for types, form in _FORMS if isinstance(error, types))
    param = error.field if isinstance(error, RequestInvalid) else None
    return answer_of(status, kind, error.code, str(error), param, _retry_s(error))


def _retry_s(error: FedaigcError) -> int | None:
    if isinstance(error, BudgetExceeded | Busy):
        return error.retry_after_s
    return RETRY_WHEN_UNAVAILABLE_S if isinstance(error, Unavailable) else None


def answer_of(
    status: int, kind: str, code: str, message: str, param: str | None = None, retry_s: int | None = None
) -> ErrorAnswer:
    """An error in OpenAI's form."""
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return ErrorAnswer(status, body, {} if retry_s is None else {"retry-after": str(retry_s)})
