"""Run by the Python that has litellm, never imported: `inside_litellm.py URL MODEL` prints JSON."""

from __future__ import annotations

import json
import os
import sys

# It would fetch a price list from the network when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

url, model = sys.argv[1:]
asked = {
    "model": f"openai/{model}",
    "api_base": f"{url}/v1",
    "api_key": "local",
    "messages": [{"role": "user", "content": "the quick brown fox"}],
    "max_tokens": 12,
    "temperature": 0,
}
whole = litellm.completion(**asked)
chunks = list(litellm.completion(**asked, stream=True))
vectors = litellm.embedding(
    model=f"openai/{model}", api_base=f"{url}/v1", api_key="local", input=["a policy"]
)
try:
    litellm.completion(**{**asked, "max_tokens": 100_000})
    error = "none"
except litellm.exceptions.BadRequestError as refused:
    error = type(refused).__name__
print(
    json.dumps(
        {
            "whole": whole.choices[0].message.content,
            "tokens": whole.usage.completion_tokens,
            "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks),
            "vector": len(vectors.data[0]["embedding"]),
            "error": error,
        }
    )
)
