"""Bodies of the embeddings route become requests, or errors that name the field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc.identifiers import RequestId
from fedaigc_edge.serve.embeddings_request import MAX_INPUTS, EmbeddingCall, read_embedding_call


def read(**fields: Any) -> EmbeddingCall:
    body = json.dumps({"model": "tiny", "input": "hello", **fields}).encode()
    return read_embedding_call(body, RequestId("embd-1"), "zh")


def test_texts_and_tokens_are_inputs() -> None:
    call = read(input=["a", [1, 2]], encoding_format="base64", dimensions=576, user="u")
    assert (call.request.inputs, call.request.language) == (("a", (1, 2)), "zh")
    assert (call.base64, call.dimensions) == (True, 576)
    assert not read(encoding_format="float").base64
    assert not read().base64
    assert len(read(input=["a"] * MAX_INPUTS).request.inputs) == MAX_INPUTS


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": ["a"] * (MAX_INPUTS + 1)}, "input"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"encoding_format": []}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": "576"}, "dimensions"),
        ({"model": None}, "model"),
        ({"input_type": "query"}, "input_type"),
    ],
)
def test_a_wrong_field_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        read(**fields)
    assert caught.value.field == param
