"""How the tokens of an answer are to be chosen, read from a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.serve import openai_fields as fields
from fedaigc_edge.serve.openai_fields import refuse

MAX_TOP_K = 1 << 20
MAX_BIASES = 1024
MAX_BIAS = 100.0
MAX_TOKENS_ASKED = 1 << 24
SAMPLING_FIELDS = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty"}
    | {"logit_bias", "seed", "logprobs"}
)
"""`top_k`, `min_p` and `repetition_penalty` are not OpenAI's, but other servers' widely used fields."""


def read_sampling(body: Mapping[str, Any], logprobs: int | None) -> Sampling:
    """Everything but the limit; `logprobs` as Sampling has it. Raises RequestInvalid naming the field."""
    return Sampling(
        max_tokens=0,
        temperature=fields.number(body, "temperature", 0, 2, 1.0),
        top_p=_top_p(body),
        top_k=fields.integer(body, "top_k", 0, MAX_TOP_K) or 0,
        min_p=fields.number(body, "min_p", 0, 1, 0.0),
        presence_penalty=fields.number(body, "presence_penalty", -2, 2, 0.0),
        frequency_penalty=fields.number(body, "frequency_penalty", -2, 2, 0.0),
        repetition_penalty=fields.number(body, "repetition_penalty", 0.01, 10, 1.0),
        logit_bias=_logit_bias(body.get("logit_bias")),
        seed=fields.integer(body, "seed", -fields.MAX_SEED - 1, fields.MAX_SEED),
        logprobs=logprobs,
    )


def _top_p(body: Mapping[str, Any]) -> float:
    value = fields.number(body, "top_p", 0, 1, 1.0)
    if value == 0:
        refuse("top_p", "it must be above 0", "for the likeliest token set temperature to 0")
    return value


def _logit_bias(value: Any) -> dict[int, float]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_BIASES:
        refuse("logit_bias", f"it must map at most {MAX_BIASES} token ids to numbers", "name fewer")
    biases: dict[int, float] = {}
    for token, bias in value.items():
        if not (token.isascii() and token.isdecimal() and len(token) <= 9):
            refuse("logit_bias", "its keys are token ids, whole numbers as text", "correct the key")
        number = isinstance(bias, int | float) and not isinstance(bias, bool)
        if not number or not -MAX_BIAS <= bias <= MAX_BIAS:
            refuse("logit_bias", f"its values are numbers from -{MAX_BIAS:g} to {MAX_BIAS:g}", "correct it")
        biases[int(token)] = float(bias)
    return biases


def max_tokens(body: Mapping[str, Any]) -> int | None:
    """`max_tokens`, or `max_completion_tokens`, its newer name."""
    old = fields.integer(body, "max_tokens", 1, MAX_TOKENS_ASKED)
    new = fields.integer(body, "max_completion_tokens", 1, MAX_TOKENS_ASKED)
    if old is not None and new is not None and old != new:
        refuse("max_tokens", "it differs from max_completion_tokens", "give one of them")
    return new if new is not None else old
