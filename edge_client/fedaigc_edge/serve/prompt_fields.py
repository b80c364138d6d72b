"""Raw prompts and inputs: a text, a list of texts, token ids, or a list of those."""

from __future__ import annotations

from typing import Any

from fedaigc_edge.serve import openai_fields as fields
from fedaigc_edge.serve.openai_fields import refuse

MAX_PROMPTS = 16
MAX_TOKEN = 2**31 - 1

Prompt = str | tuple[int, ...]


def read_prompts(value: Any, field: str, limit: int = MAX_PROMPTS) -> tuple[Prompt, ...]:
    """At most `limit` prompts, none of them empty; raises RequestInvalid naming the field."""
    if isinstance(value, str) or _is_tokens(value):
        value = [value]
    if not isinstance(value, list) or not 1 <= len(value) <= limit:
        refuse(field, f"it must be text or token ids, or a list of 1 to {limit} of them", "correct it")
    return tuple(_prompt(item, field) for item in value)


def _prompt(item: Any, field: str) -> Prompt:
    if _is_tokens(item):
        if not all(0 <= token <= MAX_TOKEN for token in item):
            refuse(field, "a token id is a whole number from 0", "use the model's own tokenizer")
        return tuple(item)
    if not isinstance(item, str) or not item:
        refuse(field, "each must be text or token ids, and not empty", "correct it")
    if not fields.is_unicode(item):
        refuse(field, "it is not valid Unicode (a lone surrogate)", "send whole characters")
    return item


def _is_tokens(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(token, int) and not isinstance(token, bool) for token in value)
    )
