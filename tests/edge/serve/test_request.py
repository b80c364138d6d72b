"""A request shows no text."""

from __future__ import annotations

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve.request import BodyTooLarge, ChatMessage, ContextTooLong, UnknownModel
from tests.edge.serve.scripted import request


def test_no_representation_shows_what_was_written() -> None:
    shown = repr(request("a secret wish", stop=("secret stop",))) + repr(ChatMessage("user", "secret"))
    assert "secret" not in shown


def test_each_refusal_has_openais_code_and_is_of_the_one_tree() -> None:
    codes = {kind.code for kind in (UnknownModel, ContextTooLong, BodyTooLarge)}
    assert codes == {"model_not_found", "context_length_exceeded", "request_too_large"}
    assert all(issubclass(kind, RequestInvalid) for kind in (UnknownModel, ContextTooLong, BodyTooLarge))
