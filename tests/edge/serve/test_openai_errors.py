"""Errors have OpenAI's form, the right status, and no secret."""

from __future__ import annotations

import pytest

from fedaigc.errors import (
    BudgetExceeded,
    Busy,
    Denied,
    LedgerError,
    ModelError,
    NotAuthorised,
    RequestInvalid,
    StorageError,
    Unavailable,
)
from fedaigc_edge.serve.openai_errors import error_answer
from fedaigc_edge.serve.request import BodyTooLarge, ContextTooLong, UnknownModel


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RequestInvalid("no", field="n"), 400, "invalid_request"),
        (ContextTooLong("no", field="messages"), 400, "context_length_exceeded"),
        (UnknownModel("no", field="model"), 404, "model_not_found"),
        (BodyTooLarge("no"), 413, "request_too_large"),
        (Denied("no", rule="r"), 400, "policy_violation"),
        (BudgetExceeded("no", retry_after_s=9), 429, "budget_exceeded"),
        (Busy("no", retry_after_s=3), 429, "busy"),
        (Unavailable("no"), 503, "unavailable"),
        (NotAuthorised("no"), 503, "not_authorised"),
        (LedgerError("no"), 503, "ledger"),
        (StorageError("no"), 500, "storage"),
        (ModelError("no"), 500, "model"),
        (ZeroDivisionError("secret"), 500, "internal_error"),
    ],
)
def test_each_kind_has_its_status_and_code(error: Exception, status: int, code: str) -> None:
    answer = error_answer(error)
    assert answer.status == status
    assert set(answer.body) == {"error"}
    assert {"message", "type", "param", "code"} <= set(answer.body["error"])
    assert answer.body["error"]["code"] == code
    assert "secret" not in str(answer)


def test_the_offending_field_is_the_param() -> None:
    assert error_answer(RequestInvalid("no", field="seed")).body["error"]["param"] == "seed"


def test_a_denial_names_its_rule_and_an_overload_its_time() -> None:
    denial = error_answer(Denied("Not allowed", rule="no-apples")).body["error"]
    assert denial["rule"] == "no-apples"
    assert "no-apples" in denial["message"]
    assert error_answer(BudgetExceeded("no", retry_after_s=9)).headers == {"retry-after": "9"}
    assert error_answer(Unavailable("no")).headers == {"retry-after": "2"}
    assert error_answer(RequestInvalid("no")).headers == {}
