"""Read the body of POST /v1/completions strictly into a request of ours."""

from __future__ import annotations

from fedaigc.identifiers import RequestId
from fedaigc_edge.engine.sampling import MAX_TOP_LOGPROBS
from fedaigc_edge.serve import openai_fields as fields
from fedaigc_edge.serve.api_call import ApiCall
from fedaigc_edge.serve.call_fields import CALL_FIELDS, check_labels, counts, include_usage, model_of
from fedaigc_edge.serve.format_fields import read_format
from fedaigc_edge.serve.json_body import read_json
from fedaigc_edge.serve.prompt_fields import read_prompts
from fedaigc_edge.serve.request import GenerationRequest, Language
from fedaigc_edge.serve.sampling_fields import SAMPLING_FIELDS, max_tokens, read_sampling

DEFAULT_MAX_TOKENS = 16
"""OpenAI's, for this route."""

HONOURED = CALL_FIELDS | SAMPLING_FIELDS | {"prompt", "response_format"}

NEUTRAL: fields.Neutral = {"echo": (False,), "suffix": ()}
"""`echo` would put text before the answer that this device did not make, and so has not recorded."""


def read_completions_call(data: bytes, request_id: RequestId, language: Language) -> ApiCall:
    """Check every field; raises RequestInvalid naming the first that cannot be honoured.

    `logprobs` is a number here: how many likeliest tokens are told with each.
    """
    body = read_json(data, whole_text=False)
    fields.check_fields(body, HONOURED, NEUTRAL)
    check_labels(body)
    stream = fields.flag(body, "stream")
    prompts = read_prompts(body.get("prompt"), "prompt")
    n, best_of = counts(body, len(prompts))
    logprobs = fields.integer(body, "logprobs", 0, MAX_TOP_LOGPROBS)
    grammar, shaping = read_format(body)
    request = GenerationRequest(
        id=request_id,
        model=model_of(body),
        prompts=prompts,
        max_tokens=max_tokens(body) or DEFAULT_MAX_TOKENS,
        sampling=read_sampling(body, logprobs),
        stop=fields.stops(body),
        n=n,
        best_of=best_of,
        grammar=grammar,
        language=language,
        shaping=shaping,
    )
    return ApiCall(request, stream, include_usage(body, stream))
