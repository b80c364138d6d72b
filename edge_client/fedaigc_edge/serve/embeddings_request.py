"""Read the body of POST /v1/embeddings strictly into a request of ours."""

from __future__ import annotations

from dataclasses import dataclass

from fedaigc.identifiers import RequestId
from fedaigc_edge.serve import openai_fields as fields
from fedaigc_edge.serve.call_fields import model_of
from fedaigc_edge.serve.json_body import read_json
from fedaigc_edge.serve.openai_fields import refuse
from fedaigc_edge.serve.prompt_fields import read_prompts
from fedaigc_edge.serve.request import EmbeddingRequest, Language

MAX_INPUTS = 256
MAX_DIMENSIONS = 1 << 20
HONOURED = frozenset({"model", "input", "encoding_format", "dimensions", "user"})


@dataclass(frozen=True)
class EmbeddingCall:
    """One call: `base64` is how vectors are sent, `dimensions` what they must have if it was said."""

    request: EmbeddingRequest
    base64: bool
    dimensions: int | None


def read_embedding_call(data: bytes, request_id: RequestId, language: Language) -> EmbeddingCall:
    """Check every field; raises RequestInvalid naming the first that cannot be honoured."""
    body = read_json(data, whole_text=False)
    fields.check_fields(body, HONOURED, {})
    fields.text(body, "user", 512, lambda _: True)
    encoding = body.get("encoding_format")
    if encoding not in (None, "float", "base64"):
        refuse("encoding_format", "it must be float or base64", "correct it")
    inputs = read_prompts(body.get("input"), "input", MAX_INPUTS)
    request = EmbeddingRequest(request_id, model_of(body), inputs, language)
    return EmbeddingCall(request, encoding == "base64", fields.integer(body, "dimensions", 1, MAX_DIMENSIONS))
