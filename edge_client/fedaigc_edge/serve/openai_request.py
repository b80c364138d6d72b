"""Read the body of POST /v1/chat/completions strictly into a request of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedaigc.identifiers import RequestId
from fedaigc_edge.engine.sampling import MAX_TOP_LOGPROBS, Grammar
from fedaigc_edge.serve import openai_fields as fields
from fedaigc_edge.serve.api_call import ApiCall
from fedaigc_edge.serve.call_fields import CALL_FIELDS, check_labels, counts, include_usage, model_of
from fedaigc_edge.serve.format_fields import read_format
from fedaigc_edge.serve.json_body import read_json
from fedaigc_edge.serve.message_fields import read_messages
from fedaigc_edge.serve.openai_fields import refuse
from fedaigc_edge.serve.request import GenerationRequest, Language, ToolUse
from fedaigc_edge.serve.sampling_fields import SAMPLING_FIELDS, max_tokens, read_sampling
from fedaigc_edge.serve.tool_fields import read_tools
from fedaigc_edge.serve.tool_grammar import tool_grammar

HONOURED = (
    CALL_FIELDS
    | SAMPLING_FIELDS
    | {"messages", "max_completion_tokens", "top_logprobs", "store"}
    | {"response_format", "tools", "tool_choice", "parallel_tool_calls"}
)

NEUTRAL: fields.Neutral = {
    "audio": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "modalities": (["text"],),
    "prediction": (),
    "prompt_cache_retention": (),
    "reasoning_effort": ("none",),
    "service_tier": ("auto", "default"),
    "verbosity": ("medium",),
    "web_search_options": (),
}


def read_chat_call(data: bytes, request_id: RequestId, language: Language) -> ApiCall:
    """Check every field; raises RequestInvalid naming the first that cannot be honoured."""
    body = read_json(data, whole_text=False)
    fields.check_fields(body, HONOURED, NEUTRAL)
    if fields.flag(body, "store"):
        refuse("store", "this device keeps no conversations for later retrieval", "leave it out")
    check_labels(body)
    stream = fields.flag(body, "stream")
    n, best_of = counts(body, prompts=1)
    tools = read_tools(body)
    grammar, shaping = _grammar(body, tools)
    request = GenerationRequest(
        id=request_id,
        model=model_of(body),
        messages=read_messages(body.get("messages")),
        max_tokens=max_tokens(body),
        sampling=read_sampling(body, _logprobs(body)),
        stop=fields.stops(body),
        n=n,
        best_of=best_of,
        tools=tools,
        grammar=grammar,
        language=language,
        shaping=shaping,
    )
    return ApiCall(request, stream, include_usage(body, stream))


def _grammar(body: Mapping[str, Any], tools: ToolUse | None) -> tuple[Grammar | None, tuple[str, ...]]:
    grammar, shaping = read_format(body)
    if tools is None:
        return grammar, shaping
    if grammar is not None:
        refuse(
            "response_format", "together with tools this device cannot enforce it", "leave one of them out"
        )
    return tool_grammar(tools), tuple(fields.texts_in(list(tools.tools)))


def _logprobs(body: Mapping[str, Any]) -> int | None:
    wanted = fields.flag(body, "logprobs")
    top = fields.integer(body, "top_logprobs", 0, MAX_TOP_LOGPROBS)
    if top and not wanted:
        refuse("top_logprobs", "it needs logprobs: true", "add it")
    return top or 0 if wanted else None
