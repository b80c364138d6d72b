"""Error answers become the errors they were, and nonsense becomes a plain one."""

from __future__ import annotations

import json

import pytest

from fedaigc import errors
from fedaigc.errors import FedaigcError, NotAuthorised, Unavailable
from fedaigc_edge.federation.error_answer import MAX_ERROR_TEXT, error_from_answer

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


def test_texts_from_the_other_side_are_cut_and_made_printable() -> None:
    body = json.dumps({"error": {"code": "ledger", "what": "\x1b[31m" + "x" * 9999, "why": "a\nb"}}).encode()
    error = error_from_answer(409, body, "POST /x")
    assert len(error.what) == MAX_ERROR_TEXT
    assert "\x1b" not in str(error)
    assert "\n" not in str(error)
