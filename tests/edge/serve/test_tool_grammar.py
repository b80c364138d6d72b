"""llguidance itself says which answers each grammar lets through."""

from __future__ import annotations

import json
from typing import Any

import llguidance
import pytest

from fedaigc_edge.engine.sampling import Grammar
from fedaigc_edge.serve.request import ToolUse
from fedaigc_edge.serve.tool_grammar import json_grammar, tool_grammar

ADD = {
    "name": "add",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    },
}
NOW = {"name": "now"}
TIGHT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
BYTES = llguidance.LLTokenizer("byte")


def allowed(grammar: Grammar, text: str) -> bool:
    matcher_type = llguidance.LLMatcher
    if grammar.kind == "json_schema":
        compiled = matcher_type.grammar_from_json_schema(grammar.text, overrides=TIGHT)
    else:
        compiled = matcher_type.grammar_from_lark(grammar.text)
    assert matcher_type.validate_grammar(compiled, BYTES) == ""
    matcher = matcher_type(BYTES, compiled)
    data = list(text.encode())
    return bool(matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting())


def call(name: str, arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


CALLS = [
    (call("add", {"a": 1, "b": -2}), True),
    (call("add", {"a": 1}), True),
    (call("add", {"b": 1}), False),
    (call("add", {"a": "1"}), False),
    (call("add", {"a": 1, "c": 2}), False),
    (call("now", {}), True),
    (call("now", {"a": 1}), False),
    (call("other", {}), False),
    ('{"arguments": {"a": 1}, "name": "add"}', False),
    (call("add", {"a": 1}) + " ", False),
]


@pytest.mark.parametrize(("text", "good"), CALLS)
def test_an_answer_that_must_call_is_one_allowed_call(text: str, good: bool) -> None:
    grammar = tool_grammar(ToolUse((ADD, NOW), ("add", "now"), must_call=True))
    assert grammar.kind == "json_schema"
    assert allowed(grammar, text) is good
    assert not allowed(grammar, "Hello")


def test_a_named_tool_is_the_only_one_that_may_be_called() -> None:
    grammar = tool_grammar(ToolUse((ADD, NOW), ("now",), must_call=True))
    assert allowed(grammar, call("now", {}))
    assert not allowed(grammar, call("add", {"a": 1}))


@pytest.mark.parametrize(("text", "good"), CALLS)
@pytest.mark.parametrize("before", ["", "I shall add <em>two</em>\nnumbers: "])
def test_an_answer_that_may_call_keeps_to_the_schema_once_it_does(before: str, text: str, good: bool) -> None:
    grammar = tool_grammar(ToolUse((ADD, NOW), ("add", "now"), must_call=False))
    assert allowed(grammar, f"{before}<tool_call>\n{text}\n</tool_call>") is good


@pytest.mark.parametrize("must_call", [True, False])
@pytest.mark.parametrize("keyword", ["$defs", "definitions"])
@pytest.mark.parametrize("draft", [{}, {"$schema": "http://json-schema.org/draft-07/schema#"}])
def test_a_reference_in_a_tools_schema_is_looked_up_in_that_tools_schema(
    must_call: bool, keyword: str, draft: dict[str, str]
) -> None:
    def tool(name: str, kind: str) -> dict[str, Any]:
        items = {"type": "array", "items": {"$ref": "#"}}
        parts = {"part": {"$ref": f"#/{keyword}/Part"}, "all": items}
        rest = {"properties": parts, "required": ["part"], "additionalProperties": False}
        return {
            "name": name,
            "parameters": {**draft, "type": "object", keyword: {"Part": {"type": kind}}, **rest},
        }

    grammar = tool_grammar(ToolUse((tool("a", "integer"), tool("b", "boolean")), ("a", "b"), must_call))

    def may(text: str) -> bool:
        return allowed(grammar, text if must_call else f"<tool_call>\n{text}\n</tool_call>")

    assert may(call("a", {"part": 1}))
    assert may(call("b", {"part": True}))
    assert not may(call("a", {"part": True}))
    assert not may(call("b", {"part": 1}))
    assert may(call("a", {"part": 1, "all": [{"part": 2}]}))
    assert not may(call("a", {"part": 1, "all": [{"name": "a", "arguments": {"part": 2}}]}))


@pytest.mark.parametrize("text", ["", "Hello", "a < b\n\n绝句 {}", "<tool_cal", '{"name": "add"}'])
def test_an_answer_that_may_call_may_as_well_be_any_text(text: str) -> None:
    assert allowed(tool_grammar(ToolUse((ADD,), ("add",), must_call=False)), text)


@pytest.mark.parametrize(
    "text", ["<tool_call>", "<tool_call> x", "<tool_call>\n{}\n</tool_call>", "a<tool_call>\nnot JSON"]
)
def test_an_answer_cannot_begin_a_call_and_not_make_one(text: str) -> None:
    assert not allowed(tool_grammar(ToolUse((ADD,), ("add",), must_call=False)), text)


def test_nothing_comes_after_a_call() -> None:
    grammar = tool_grammar(ToolUse((NOW,), ("now",), must_call=False))
    assert not allowed(grammar, f"<tool_call>\n{call('now', {})}\n</tool_call>\nand more")


@pytest.mark.parametrize(
    ("text", "good"), [('{"a": [1, {"b": null}]}', True), ("{}", True), ("[]", False), ('{"a" :1}', False)]
)
def test_json_has_nothing_around_it(text: str, good: bool) -> None:
    assert allowed(json_grammar({"type": "object"}), text) is good
