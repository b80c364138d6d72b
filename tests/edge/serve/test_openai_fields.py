"""A field is honoured, neutral, or refused by name; none is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve import openai_fields as fields

CHANGES_THE_OUTPUT: list[tuple[str, Any]] = [
    ("audio", {"voice": "alloy", "format": "wav"}),
    ("frequency_penalty", 0.5),
    ("frequency_penalty", False),
    ("function_call", {"name": "f"}),
    ("functions", [{"name": "f"}]),
    ("logit_bias", {"50256": -100}),
    ("logprobs", True),
    ("logprobs", 0),
    ("modalities", ["text", "audio"]),
    ("prediction", {"type": "content", "content": "x"}),
    ("presence_penalty", -1),
    ("prompt_cache_retention", "24h"),
    ("reasoning_effort", "high"),
    ("response_format", {"type": "json_object"}),
    ("response_format", {"type": "json_schema", "json_schema": {}}),
    ("service_tier", "flex"),
    ("tool_choice", "required"),
    ("tools", [{"type": "function", "function": {"name": "f"}}]),
    ("top_logprobs", 5),
    ("verbosity", "low"),
    ("web_search_options", {}),
]


@pytest.mark.parametrize(("field", "value"), CHANGES_THE_OUTPUT)
def test_what_would_change_the_output_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(RequestInvalid) as caught:
        fields.check_fields({field: value})
    assert caught.value.field == field


def test_every_field_that_is_not_honoured_has_a_refused_value_in_this_test() -> None:
    refused = {field for field, _ in CHANGES_THE_OUTPUT}
    assert set(fields.NEUTRAL) - refused == {"parallel_tool_calls"}


@pytest.mark.parametrize(
    ("field", "value"), [(f, v) for f, values in fields.NEUTRAL.items() for v in (None, *values)]
)
def test_a_value_that_changes_nothing_is_accepted(field: str, value: object) -> None:
    fields.check_fields({field: value})


@pytest.mark.parametrize("field", ["repetition_penalty", "min_p", "guided_json", "temprature", "best_of"])
def test_an_unknown_field_is_refused_by_name(field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        fields.check_fields({field: None})
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["my secret prompt", "秘密", "x" * 65, "", 'a"b'])
def test_text_in_a_fields_name_is_not_repeated(field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        fields.check_fields({field: 1})
    assert caught.value.field is None
    assert not field or field not in str(caught.value)


@pytest.mark.parametrize("value", ["1", True, float("inf"), -0.1, 2.1, [1]])
def test_a_number_out_of_range_or_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(RequestInvalid):
        fields.number({"temperature": value}, "temperature", 0, 2, 1.0)


@pytest.mark.parametrize("value", ["1", True, 1.0, 0, 10**30])
def test_a_whole_number_is_exactly_that(value: object) -> None:
    with pytest.raises(RequestInvalid):
        fields.integer({"max_tokens": value}, "max_tokens", 1, 100)


@pytest.mark.parametrize("value", [1, "true", []])
def test_a_flag_is_true_or_false(value: object) -> None:
    with pytest.raises(RequestInvalid):
        fields.flag({"stream": value}, "stream")


@pytest.mark.parametrize("value", [["a"] * 5, [""], "", [1], {"a": 1}, "x" * 1001, ["\ud800"], [None], 7])
def test_stops_that_cannot_be_kept_are_refused(value: object) -> None:
    with pytest.raises(RequestInvalid) as caught:
        fields.stops({"stop": value})
    assert caught.value.field == "stop"


def test_stops_may_be_one_text_a_list_or_nothing() -> None:
    assert fields.stops({}) == fields.stops({"stop": None}) == fields.stops({"stop": []}) == ()
    assert fields.stops({"stop": "a"}) == ("a",)
    assert fields.stops({"stop": ["a", "b", "c", "d"]}) == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    "value", ["a", [1], {"k": 1}, {"k" * 65: "v"}, {"k": "v" * 513}, {str(n): "v" for n in range(17)}]
)
def test_metadata_is_small_and_text(value: object) -> None:
    with pytest.raises(RequestInvalid):
        fields.check_metadata({"metadata": value})
    fields.check_metadata({"metadata": {"team": "a"}})
