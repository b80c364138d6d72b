"""The form that an answer must have so that every tool call in it is one that the caller's schema allows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedaigc_edge.engine.sampling import Grammar
from fedaigc_edge.serve.chat_prompt import CALL_CLOSE, CALL_OPEN
from fedaigc_edge.serve.request import ToolUse

_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""llguidance's options for JSON within other text: one spacing, or small models lose themselves in it. How an
answer that is JSON alone is spaced is decided by the engine."""

_MAYBE_CALL = r"""%llguidance {{}}
start: before call | TEXT
before[lazy]: /(.|\n)*{open}/
TEXT: /(.|\n)*/ & ~/(.|\n)*{open}(.|\n)*/
call: "\n" body "\n{close}"
body: %json {schema}
"""


def json_grammar(schema: Mapping[str, Any]) -> Grammar:
    """An answer that is JSON by this schema, nothing before or after it."""
    return Grammar("json_schema", json.dumps(schema))


def tool_grammar(use: ToolUse) -> Grammar:
    """One call of a tool that may be called, or any text without one unless `use.must_call`.

    A call that must be is `{"name": ..., "arguments": ...}` alone; one that may be stands within tags, after
    any text, and ends the answer.
    """
    calls = [_call_schema(tool) for tool in use.tools if tool["name"] in use.callable]
    schema = calls[0] if len(calls) == 1 else {"anyOf": calls}
    if use.must_call:
        return json_grammar(schema)
    text = json.dumps({**schema, "x-guidance": _COMPACT})
    return Grammar("lark", _MAYBE_CALL.format(open=CALL_OPEN, close=CALL_CLOSE, schema=text))


def _call_schema(tool: Mapping[str, Any]) -> dict[str, Any]:
    parameters = tool.get("parameters") or {"type": "object", "properties": {}, "additionalProperties": False}
    # A name of its own makes it a document of its own: `#/$defs/...` in it is looked up in it.
    parameters = {"$id": f"urn:tool:{tool['name']}", **parameters}
    return {
        "type": "object",
        # In this order: the name is told before the arguments begin.
        "properties": {"name": {"const": tool["name"]}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }
