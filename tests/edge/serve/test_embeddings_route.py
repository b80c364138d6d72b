"""Embeddings over a real socket, by OpenAI's own program."""

from __future__ import annotations

import base64

import httpx
import numpy as np
import openai
import pytest

from fedaigc.errors import NotAuthorised
from tests.edge.serve.scripted import Parts, RunningApi

PATH = "/v1/embeddings"


def test_openais_program_gets_the_vectors_in_both_encodings(caller: openai.OpenAI) -> None:
    by_default = caller.embeddings.create(model="tiny", input=["a b", "c"])
    as_floats = caller.embeddings.create(model="tiny", input=["a b", "c"], encoding_format="float")
    for answer in (by_default, as_floats):
        assert [item.index for item in answer.data] == [0, 1]
        assert np.linalg.norm([item.embedding for item in answer.data], axis=1) == pytest.approx(1.0)
        assert (answer.usage.prompt_tokens, answer.usage.total_tokens, answer.model) == (5, 5, "tiny@0")
    assert by_default.data[0].embedding == pytest.approx(as_floats.data[0].embedding)


def test_base64_is_little_endian_float32(api: RunningApi) -> None:
    body = {"model": "tiny", "input": [1, 2, 3]}
    floats = httpx.post(api.url + PATH, json=body).json()["data"][0]["embedding"]
    coded = httpx.post(api.url + PATH, json={**body, "encoding_format": "base64"}).json()["data"][0]
    assert np.frombuffer(base64.b64decode(coded["embedding"]), "<f4").tolist() == floats


def test_dimensions_must_be_the_models_own(caller: openai.OpenAI) -> None:
    assert len(caller.embeddings.create(model="tiny", input="a", dimensions=3).data) == 1
    with pytest.raises(openai.BadRequestError) as caught:
        caller.embeddings.create(model="tiny", input="a", dimensions=2)
    assert caught.value.param == "dimensions"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "tiny", "input": "a forbidden apple"}, 400, "policy_violation"),
        ({"model": "tiny", "input": "w " * 3000}, 400, "context_length_exceeded"),
        ({"model": "gpt-4o", "input": "a"}, 404, "model_not_found"),
        ({"model": "tiny"}, 400, "invalid_request"),
    ],
)
def test_a_refusal_has_openais_form_and_an_id(
    api: RunningApi, body: dict[str, object], status: int, code: str
) -> None:
    answer = httpx.post(api.url + PATH, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["x-request-id"].startswith("embd-")


def test_a_device_that_may_not_serve_says_why(api: RunningApi, parts: Parts) -> None:
    api.readiness.close(NotAuthorised("This device was revoked", "", "ask"))
    answer = httpx.post(api.url + PATH, json={"model": "tiny", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_authorised")
    assert parts.metrics.requests["unavailable"] == 1
