"""The fields that every route which generates has: model, stream, how many choices, and labels of callers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedaigc_edge.serve import openai_fields as fields
from fedaigc_edge.serve.openai_fields import refuse
from fedaigc_edge.serve.request import MAX_CHOICES

CALL_FIELDS = frozenset(
    {"model", "stream", "stream_options", "n", "best_of", "max_tokens", "stop", "user", "metadata"}
    | {"safety_identifier", "prompt_cache_key"}
)


def model_of(body: Mapping[str, Any]) -> str:
    """The name of a model."""
    model = fields.text(body, "model", 256)
    if model is None:
        refuse("model", "it is missing", "name a model that GET /v1/models lists")
    return model


def check_labels(body: Mapping[str, Any]) -> None:
    """What callers attach for themselves; it is accepted and kept nowhere."""
    for name in ("user", "safety_identifier", "prompt_cache_key"):
        fields.text(body, name, 512, lambda _: True)
    fields.check_metadata(body)


def include_usage(body: Mapping[str, Any], stream: bool) -> bool:
    """Whether a stream ends with the usage."""
    options = body.get("stream_options")
    if options is None:
        return False
    if not stream:
        refuse("stream_options", "it is only allowed with stream: true", "leave it out")
    if not isinstance(options, dict) or not set(options) <= {"include_usage", "include_obfuscation"}:
        refuse("stream_options", "it may hold include_usage only", "leave the rest out")
    if fields.flag(options, "include_obfuscation"):
        refuse("stream_options", "this device adds no obfuscation", "set include_obfuscation to false")
    return fields.flag(options, "include_usage")


def counts(body: Mapping[str, Any], prompts: int) -> tuple[int, int]:
    """`n` and `best_of`: how many answers of each prompt, and of how many candidates the one is the best."""
    n = fields.integer(body, "n", 1, MAX_CHOICES) or 1
    best_of = fields.integer(body, "best_of", 1, MAX_CHOICES) or 1
    if best_of > 1 and n > 1:
        refuse("best_of", "it gives one answer, so n must be 1", "leave one of them out")
    if best_of > 1 and prompts > 1:
        refuse("best_of", "it takes one prompt", "send each prompt by itself")
    if n * prompts > MAX_CHOICES:
        refuse("n", f"a request may have {MAX_CHOICES} choices over all its prompts", "ask for fewer")
    return n, best_of
