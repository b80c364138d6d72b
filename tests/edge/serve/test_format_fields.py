"""A response format becomes a grammar, or a refusal that names it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve.format_fields import read_format

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Köln"]}}}


def schema(**changes: Any) -> dict[str, Any]:
    named = {"name": "s", "schema": SCHEMA, "strict": True, "description": "d", **changes}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


@pytest.mark.parametrize("body", [{}, {"response_format": None}, {"response_format": {"type": "text"}}])
def test_text_needs_no_grammar(body: dict[str, Any]) -> None:
    assert read_format(body) == (None, ())


def test_a_schema_is_enforced_whether_or_not_it_says_strict() -> None:
    for strict in (True, False, None):
        grammar, texts = read_format(schema(strict=strict))
        assert grammar is not None
        assert grammar.kind == "json_schema"
        assert json.loads(grammar.text) == SCHEMA
        assert "Köln" in texts
        assert "Köln" not in repr(grammar)


def test_a_json_object_is_any_object() -> None:
    grammar, texts = read_format({"response_format": {"type": "json_object"}})
    assert grammar is not None
    assert json.loads(grammar.text)["type"] == "object"
    assert texts == ()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {}}, "response_format"),
        ({"response_format": {"type": "grammar"}}, "response_format"),
        ({"response_format": {"type": []}}, "response_format"),
        ({"response_format": {"type": "text", "json_schema": {}}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (schema(extra=1), "response_format.json_schema"),
        (schema(schema=[]), "response_format.json_schema.schema"),
        (schema(schema={"a": "\ud800"}), "response_format.json_schema.schema"),
        (schema(strict="yes"), "strict"),
    ],
)
def test_what_is_no_format_is_refused_by_its_place(body: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        read_format(body)
    assert caught.value.field == field
