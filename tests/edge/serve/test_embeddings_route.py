"""Embeddings over a real socket, by OpenAI's own program."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import Sequence

import httpx
import numpy as np
import openai
import pytest

from fedaigc.arrays import FloatArray
from fedaigc.errors import NotAuthorised
from tests.edge.serve.scripted import Parts, RunningApi, until

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


def test_a_caller_who_hangs_up_ends_the_reading_of_its_texts(api: RunningApi, parts: Parts) -> None:
    begun: list[int] = []

    async def endless(prompts: Sequence[Sequence[int]]) -> FloatArray:
        begun.append(len(prompts))
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    parts.generator.embed = endless  # type: ignore[method-assign]
    body = json.dumps({"model": "tiny", "input": ["a"] * 20}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", api.port), timeout=5) as connection:
        connection.sendall(head + body)
        until(lambda: begun == [8])
        assert parts.budget.held > 0
    until(lambda: parts.budget.held == 0)
    assert (begun, parts.budget.used) == ([8], 0)
    assert parts.metrics.requests["cancelled"] == 1


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
