"""Error answers become the errors they were, and nonsense becomes a plain one."""

from __future__ import annotations

import json

import pytest

from fedaigc import errors
from fedaigc.errors import FedaigcError, NotAuthorised, RequestInvalid, Unavailable
from fedaigc_edge.federation.error_answer import MAX_ERROR_TEXT, error_from_answer
from fedaigc_edge.serve.json_text import json_bytes
from fedaigc_edge.serve.openai_errors import error_answer

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FedaigcError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_of_the_tree_survives_the_wire(kind: type[FedaigcError]) -> None:
    body = json.dumps({"error": kind("what", "why", "next").as_json()}).encode()
    error = error_from_answer(400, body, "POST /x")
    assert type(error) is kind
    assert (error.what, error.why, error.do_next) == ("what", "why", "next")


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"{}", b'{"error": "x"}', b'{"error": {"code": "new", "what": "x"}}', b"\xff"],
)
def test_other_bodies_tell_the_status(body: bytes) -> None:
    assert isinstance(error_from_answer(403, body, "POST /x"), NotAuthorised)
    assert isinstance(error_from_answer(503, body, "POST /x"), Unavailable)
    plain = error_from_answer(500, body, "POST /x")
    assert type(plain) is FedaigcError
    assert "500" in str(plain)


@pytest.mark.parametrize("kind", [errors.RequestInvalid, errors.StorageError, errors.Unavailable])
def test_an_error_in_openais_form_is_the_error_that_it_was(kind: type[FedaigcError]) -> None:
    answer = error_answer(kind("Field 'x' is wrong", "it must be up or down", "correct it"))
    error = error_from_answer(answer.status, json_bytes(answer.body), "POST /v1/feedback")
    assert type(error) is kind
    assert (error.what, error.why, error.do_next) == (
        "Field 'x' is wrong", "it must be up or down", "correct it",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ({"message": "No such route.", "type": "invalid_request_error", "code": "not_found"}, RequestInvalid),
        ({"message": "No such route.", "type": "server_error", "code": None}, FedaigcError),
        ({"message": "No such route."}, FedaigcError),
    ],
)
def test_a_code_of_openais_own_keeps_the_message(record: dict[str, object], kind: type[FedaigcError]) -> None:
    error = error_from_answer(404, json.dumps({"error": record}).encode(), "POST /x")
    assert (type(error), error.what) == (kind, "No such route")


@pytest.mark.parametrize("message", ["", None, 3, "\x1b[31m\n" * 999])
def test_an_odd_message_is_told_without_harm(message: object) -> None:
    body = json.dumps({"error": {"message": message, "type": "x", "param": None, "code": "x"}}).encode()
    text = str(error_from_answer(500, body, "POST /x"))
    assert "\x1b" not in text
    assert "\n" not in text


def test_texts_from_the_other_side_are_cut_and_made_printable() -> None:
    body = json.dumps({"error": {"code": "ledger", "what": "\x1b[31m" + "x" * 9999, "why": "a\nb"}}).encode()
    error = error_from_answer(409, body, "POST /x")
    assert len(error.what) == MAX_ERROR_TEXT
    assert "\x1b" not in str(error)
    assert "\n" not in str(error)
