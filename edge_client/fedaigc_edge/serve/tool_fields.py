"""The tools that a request offers, and whether one must be called."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fedaigc_edge.serve import openai_fields as fields
from fedaigc_edge.serve.openai_fields import refuse
from fedaigc_edge.serve.request import ToolUse

MAX_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_tools(body: Mapping[str, Any]) -> ToolUse | None:
    """What may or must be called; None when there are no tools, or `tool_choice` is none.

    An answer makes at most one call, so `parallel_tool_calls` may be anything. Raises RequestInvalid.
    """
    fields.flag(body, "parallel_tool_calls")
    tools = _tools(body.get("tools"))
    names = tuple(tool["name"] for tool in tools)
    choice = body.get("tool_choice")
    if choice is None or choice in ("none", "auto"):
        return ToolUse(tools, names, must_call=False) if tools and choice != "none" else None
    if not tools:
        refuse("tool_choice", "there are no tools", "send tools, or leave it out")
    if choice == "required":
        return ToolUse(tools, names, must_call=True)
    named = fields.record(choice, "tool_choice", {"type", "function"}, {"type", "function"})
    if named["type"] != "function":
        refuse("tool_choice", "it must be none, auto, required or one function", "correct it")
    name = fields.record(named["function"], "tool_choice", {"name"}, {"name"})["name"]
    if name not in names:
        refuse("tool_choice", "no tool has the name that it gives", "name one of the tools")
    return ToolUse(tools, (name,), must_call=True)


def _tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_TOOLS:
        refuse("tools", f"it must be a list of at most {MAX_TOOLS}", "send fewer")
    if not fields.is_unicode(json.dumps(value, ensure_ascii=False)):
        refuse("tools", "it is not valid Unicode (a lone surrogate)", "send whole characters")
    tools = tuple(_tool(item, f"tools[{number}]") for number, item in enumerate(value))
    if len({tool["name"] for tool in tools}) < len(tools):
        refuse("tools", "two have the same name", "rename one")
    return tools


def _tool(item: Any, where: str) -> Mapping[str, Any]:
    fields.record(item, where, {"type", "function"}, {"type", "function"})
    if item["type"] != "function":
        refuse(f"{where}.type", "only functions are supported", "send a function")
    where = f"{where}.function"
    function = fields.record(
        item["function"], where, {"name", "description", "parameters", "strict"}, {"name"}
    )
    name, parameters = function["name"], function.get("parameters")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        refuse(f"{where}.name", "it has 1 to 64 letters, digits, dashes and underscores", "rename it")
    if not isinstance(function.get("description", ""), str | None):
        refuse(f"{where}.description", "it must be text", "correct it")
    if parameters is not None and not isinstance(parameters, dict):
        refuse(f"{where}.parameters", "it must be a JSON schema of an object", "correct it")
    if parameters and parameters.get("type", "object") != "object":
        refuse(f"{where}.parameters", "the arguments of a function are an object", "correct its type")
    # Arguments keep to the schema in any case.
    fields.flag(function, "strict")
    return {key: value for key, value in function.items() if key != "strict" and value is not None}
