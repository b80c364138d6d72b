from __future__ import annotations

import pytest

from fedaigc import errors
from fedaigc_server.error_answers import error_answer, status_of


def test_every_error_of_the_tree_has_a_status_that_fits_its_meaning() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.FedaigcError)
    ]
    statuses = {kind.__name__: status_of(kind("what")) for kind in kinds}
    assert statuses["NotAuthorised"] == statuses["JoinTokenError"] == 403
    assert statuses["LedgerError"] == 409
    assert statuses["FolderInUse"] == statuses["Unavailable"] == 503
    assert all(400 <= status < 600 for status in statuses.values())


@pytest.mark.parametrize("status", [None, 404])
def test_the_body_is_the_error_as_json(status: int | None) -> None:
    answer = error_answer(errors.RequestInvalid("what", "why", "next"), status)
    assert answer.status_code == (status or 400)
    assert b'"code":"invalid_request"' in bytes(answer.body)
