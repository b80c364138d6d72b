"""The form that an answer must have, read from a request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedaigc_edge.engine.sampling import Grammar
from fedaigc_edge.serve import openai_fields as fields
from fedaigc_edge.serve.openai_fields import refuse
from fedaigc_edge.serve.tool_grammar import json_grammar

_FIELD = "response_format"


def read_format(body: Mapping[str, Any]) -> tuple[Grammar | None, tuple[str, ...]]:
    """The grammar that the answer keeps to, and the texts in it; None for text.

    A schema is enforced token by token whether or not it says `strict`; whether it can be is found out by the
    engine. Raises RequestInvalid.
    """
    value = body.get(_FIELD)
    if value is None:
        return None, ()
    form = fields.record(value, _FIELD, {"type", "json_schema"}, {"type"})
    if form["type"] == "json_schema":
        schema = _schema(form.get("json_schema"))
        return json_grammar(schema), tuple(fields.texts_in(schema))
    if "json_schema" in form or form["type"] not in ("text", "json_object"):
        refuse(_FIELD, "its type must be text, json_object or json_schema", "correct it")
    return (json_grammar({"type": "object"}) if form["type"] == "json_object" else None), ()


def _schema(value: Any) -> dict[str, Any]:
    named = fields.record(
        value, f"{_FIELD}.json_schema", {"name", "description", "schema", "strict"}, {"schema"}
    )
    fields.text(named, "name", 64)
    fields.flag(named, "strict")
    schema = named["schema"]
    if not isinstance(schema, dict) or not fields.is_unicode(json.dumps(schema, ensure_ascii=False)):
        refuse(f"{_FIELD}.json_schema.schema", "it must be a JSON schema", "correct it")
    return schema
