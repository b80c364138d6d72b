"""Bodies become requests, or errors that name the field and quote nothing."""

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
from fedaigc_edge.serve.json_body import MAX_BODY_BYTES
from fedaigc_edge.serve.openai_request import HONOURED, NEUTRAL, read_chat_call

ID = RequestId("chatcmpl-1")
MESSAGES = [{"role": "user", "content": "hello"}]


def read(body: Any) -> ApiCall:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_chat_call(data, ID, "en")


def chat(**fields: Any) -> ApiCall:
    return read({"model": "tiny", "messages": MESSAGES, **fields})


def test_the_defaults_are_openais() -> None:
    call = chat()
    request = call.request
    assert (call.stream, call.include_usage) == (False, False)
    assert request.sampling == Sampling(max_tokens=0)
    assert (request.max_tokens, request.stop, request.n, request.best_of) == (None, (), 1, 1)
    assert (request.tools, request.grammar, request.prompts) == (None, None, ())


def test_every_supported_field_arrives() -> None:
    call = chat(
        max_completion_tokens=7,
        temperature=0,
        top_p=0.5,
        top_k=3,
        min_p=0.05,
        presence_penalty=-2,
        frequency_penalty=0.5,
        repetition_penalty=1.3,
        logit_bias={"5": -100, "17": 2.5},
        logprobs=True,
        top_logprobs=20,
        seed=-9,
        stop=["a", "绝"],
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
        n=16,
        best_of=1,
        user="u",
        metadata={"a": "b"},
        store=False,
        safety_identifier="s",
        prompt_cache_key="k",
    )
    request = call.request
    assert (call.stream, call.include_usage) == (True, True)
    assert (request.max_tokens, request.n, request.stop) == (7, 16, ("a", "绝"))
    assert request.sampling == Sampling(
        max_tokens=0,
        temperature=0.0,
        top_p=0.5,
        top_k=3,
        min_p=0.05,
        presence_penalty=-2.0,
        frequency_penalty=0.5,
        repetition_penalty=1.3,
        logit_bias={5: -100.0, 17: 2.5},
        seed=-9,
        logprobs=20,
    )


def test_text_parts_are_joined_and_developer_is_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = chat(messages=[{"role": "developer", "content": parts}, *MESSAGES]).request.messages
    assert [(message.role, message.content) for message in messages] == [("system", "ab"), ("user", "hello")]


def test_an_answer_of_ours_can_be_sent_back_as_history() -> None:
    answer: dict[str, Any] = {
        "role": "assistant",
        "content": "hi",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
    }
    assert len(chat(messages=[*MESSAGES, answer, *MESSAGES]).request.messages) == 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"model": 7}, "model"),
        ({"model": ""}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": [], "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "x", "name": "bob"}]}, "messages[0].name"),
        ({"messages": [{"role": "user", "content": "x", "weight": 0}]}, "messages[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache": 1}]}]},
            "messages[0].content[0]",
        ),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
        ({"temperature": 2.5}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"best_of": 17}, "best_of"),
        ({"best_of": 2, "n": 2}, "best_of"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"min_p": 1.1}, "min_p"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": "1"}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"logit_bias": []}, "logit_bias"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias"),
        ({"logit_bias": {"1": True}}, "logit_bias"),
        ({"logit_bias": {str(n): 0 for n in range(1025)}}, "logit_bias"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"other": 1}}, "stream_options"),
        ({"stream": True, "stream_options": []}, "stream_options"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options"),
        ({"store": True}, "store"),
        ({"user": 5}, "user"),
        ({"metadata": []}, "metadata"),
    ],
)
def test_a_wrong_field_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        chat(**fields)
    assert caught.value.field == param


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b'{"model": "tiny", "model": "other"}',
        b'{"temperature": NaN}',
        b'{"seed": 1' + b"0" * 10_000 + b"}",
        b'{"a":' * 100_000,
        b"[" * 500_000,
        b'{"model": "\xff"}',
        b"\xef\xbb\xbf{}",
        b"{" + b" " * MAX_BODY_BYTES + b"}",
    ],
)
def test_a_body_that_is_not_one_json_object_is_refused_safely(data: bytes) -> None:
    with pytest.raises(RequestInvalid):
        read(data)


@given(
    st.text(st.characters(codec="utf-8"), min_size=12), st.sampled_from(["content", "role", "stop", "key"])
)
def test_an_error_never_quotes_what_the_caller_wrote(secret: str, place: str) -> None:
    body: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "n": 99}
    if place == "key":
        body[secret] = 1
    elif place == "stop":
        body["stop"] = [secret, 1]
    else:
        body["messages"][0][place] = secret
    with pytest.raises(RequestInvalid) as caught:
        read(body)
    said = str(caught.value) + str(caught.value.field)
    assert secret not in said or secret.isidentifier()


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted(HONOURED | set(NEUTRAL))


@given(st.dictionaries(st.sampled_from(NAMES), json_values))
def test_no_json_whatever_it_holds_gives_another_error(fields: dict[str, Any]) -> None:
    with contextlib.suppress(RequestInvalid):
        chat(**fields)


CHANGES_THE_OUTPUT: list[tuple[str, Any]] = [
    ("audio", {"voice": "alloy", "format": "wav"}),
    ("function_call", {"name": "f"}),
    ("functions", [{"name": "f"}]),
    ("modalities", ["text", "audio"]),
    ("prediction", {"type": "content", "content": "x"}),
    ("prompt_cache_retention", "24h"),
    ("reasoning_effort", "high"),
    ("service_tier", "flex"),
    ("verbosity", "low"),
    ("web_search_options", {}),
]


@pytest.mark.parametrize(("field", "value"), CHANGES_THE_OUTPUT)
def test_what_would_change_the_output_and_is_not_honoured_is_refused_by_name(
    field: str, value: object
) -> None:
    with pytest.raises(RequestInvalid) as caught:
        chat(**{field: value})
    assert caught.value.field == field


def test_every_field_that_is_not_honoured_has_a_refused_value_in_this_test() -> None:
    assert set(NEUTRAL) == {field for field, _ in CHANGES_THE_OUTPUT}


@pytest.mark.parametrize(
    ("field", "value"), [(f, v) for f, values in NEUTRAL.items() for v in (None, *values)]
)
def test_a_value_that_changes_nothing_is_accepted(field: str, value: object) -> None:
    chat(**{field: value})


@pytest.mark.parametrize("field", ["guided_json", "temprature", "mirostat", "suffix", "echo", "prompt"])
def test_an_unknown_field_is_refused_by_name(field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        chat(**{field: None})
    assert caught.value.field == field


def test_tools_become_a_grammar_and_their_texts_are_judged() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "forbidden apple"}}
    request = chat(tools=[tool], tool_choice="required").request
    assert request.tools is not None
    assert request.tools.must_call
    assert request.grammar is not None
    assert "forbidden apple" in request.texts(None)


def test_a_response_format_and_tools_together_are_refused() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    with pytest.raises(RequestInvalid) as caught:
        chat(tools=[tool], response_format={"type": "json_object"})
    assert caught.value.field == "response_format"
    assert chat(tools=[tool], tool_choice="none", response_format={"type": "json_object"}).request.grammar


def test_a_schemas_texts_are_judged() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["forbidden\napple"]}}}
    request = chat(
        response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    ).request
    assert "forbidden\napple" in request.texts(None)
