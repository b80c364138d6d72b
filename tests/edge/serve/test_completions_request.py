"""Bodies of the completions route become requests, or errors that name the field."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.errors import RequestInvalid
from fedaigc.identifiers import RequestId
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.serve.api_call import ApiCall
from fedaigc_edge.serve.completions_request import HONOURED, read_completions_call
from tests.edge.serve.test_openai_request import json_values


def complete(**fields: Any) -> ApiCall:
    body = json.dumps({"model": "tiny", "prompt": "Once", **fields}).encode()
    return read_completions_call(body, RequestId("cmpl-1"), "en")


def test_the_defaults_are_openais() -> None:
    call = complete()
    assert (call.request.prompts, call.request.messages) == (("Once",), ())
    assert (call.request.max_tokens, call.request.sampling) == (16, Sampling(0))
    assert (call.stream, call.request.n, call.request.best_of) == (False, 1, 1)


def test_every_supported_field_arrives() -> None:
    request = complete(
        prompt=["a", [1, 2]], max_tokens=3, n=2, stop="x", logprobs=2, seed=4, temperature=0, echo=False,
        suffix=None, user="u", stream=True, stream_options={"include_usage": True}, best_of=1,
    ).request  # fmt: skip
    assert (request.prompts, request.max_tokens, request.n) == (("a", (1, 2)), 3, 2)
    assert request.sampling == Sampling(0, temperature=0.0, seed=4, logprobs=2)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"echo": True}, "echo"),
        ({"suffix": " end"}, "suffix"),
        ({"suffix": ""}, "suffix"),
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": 21}, "logprobs"),
        ({"best_of": 2, "n": 2}, "best_of"),
        ({"prompt": ["a"] * 9, "n": 2}, "n"),
        ({"messages": []}, "messages"),
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
        ({"tools": []}, "tools"),
    ],
)
def test_a_wrong_field_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        complete(**fields)
    assert caught.value.field == param


@given(st.dictionaries(st.sampled_from(sorted(HONOURED)), json_values))
def test_no_json_whatever_it_holds_gives_another_error(fields: dict[str, Any]) -> None:
    with contextlib.suppress(RequestInvalid):
        complete(**fields)
