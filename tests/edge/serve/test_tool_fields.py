"""Tools are read strictly, and the choice among them means what OpenAI's means."""

from __future__ import annotations

from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve.tool_fields import read_tools

F = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
G = {"type": "function", "function": {"name": "g", "strict": True, "description": None}}
NAMED = {"type": "function", "function": {"name": "g"}}


def function(**changes: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", **changes}}]}


def test_tools_are_offered_and_by_default_may_be_called() -> None:
    for body in ({"tools": [F, G]}, {"tools": [F, G], "tool_choice": "auto", "parallel_tool_calls": False}):
        use = read_tools(body)
        assert use is not None
        assert (use.callable, use.must_call) == (("f", "g"), False)
        assert use.tools == (F["function"], {"name": "g"})


@pytest.mark.parametrize(("choice", "callable"), [("required", ("f", "g")), (NAMED, ("g",))])
def test_a_choice_can_demand_a_call(choice: Any, callable: tuple[str, ...]) -> None:
    use = read_tools({"tools": [F, G], "tool_choice": choice})
    assert use is not None
    assert (use.callable, use.must_call, len(use.tools)) == (callable, True, 2)


@pytest.mark.parametrize(
    "body",
    [{}, {"tools": None}, {"tools": []}, {"tools": [F], "tool_choice": "none"}, {"tool_choice": "auto"}],
)
def test_without_tools_or_with_the_choice_of_none_there_is_nothing_to_call(body: dict[str, Any]) -> None:
    assert read_tools(body) is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tools": {}}, "tools"),
        ({"tools": [F] * 129}, "tools"),
        ({"tools": [F, F]}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [{"type": "custom", "function": {"name": "f"}}]}, "tools[0].type"),
        (function(name="a b"), "tools[0].function.name"),
        (function(name=5), "tools[0].function.name"),
        (function(extra=1), "tools[0].function"),
        (function(description=5), "tools[0].function.description"),
        (function(parameters=[]), "tools[0].function.parameters"),
        (function(parameters={"type": "string"}), "tools[0].function.parameters"),
        (function(strict="yes"), "strict"),
        (function(description="\ud800"), "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [F], "tool_choice": NAMED}, "tool_choice"),
        ({"tools": [F], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [F], "tool_choice": {"type": "allowed_tools", "function": {"name": "f"}}}, "tool_choice"),
        ({"tools": [F], "tool_choice": {"type": "function", "function": {}}}, "tool_choice"),
        ({"tools": [F], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_its_place(body: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        read_tools(body)
    assert caught.value.field == field
