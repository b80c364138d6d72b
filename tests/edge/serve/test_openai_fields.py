"""A field is honoured, neutral, or refused by name; none is dropped."""

from __future__ import annotations

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve import openai_fields as fields

HONOURED = frozenset({"model"})
NEUTRAL: fields.Neutral = {"audio": (), "verbosity": ("medium",), "store": (False,), "level": (0,)}


@pytest.mark.parametrize(
    ("field", "value"), [("audio", {}), ("verbosity", "low"), ("store", True), ("store", 0), ("level", False)]
)
def test_what_would_change_the_output_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(RequestInvalid) as caught:
        fields.check_fields({field: value}, HONOURED, NEUTRAL)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "value"), [(f, v) for f, values in NEUTRAL.items() for v in (None, *values)]
)
def test_a_value_that_changes_nothing_is_accepted(field: str, value: object) -> None:
    fields.check_fields({field: value, "model": 5}, HONOURED, NEUTRAL)


@pytest.mark.parametrize("field", ["repetition", "temprature"])
def test_an_unknown_field_is_refused_by_name(field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        fields.check_fields({field: None}, HONOURED, NEUTRAL)
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["my secret prompt", "秘密", "x" * 65, "", 'a"b'])
def test_text_in_a_fields_name_is_not_repeated(field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        fields.check_fields({field: 1}, HONOURED, NEUTRAL)
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


@pytest.mark.parametrize("value", [None, [], {"other": 1}, {}, {"name": 1, "other": 2}])
def test_an_object_has_its_known_and_needed_keys(value: object) -> None:
    with pytest.raises(RequestInvalid) as caught:
        fields.record(value, "tools[3]", {"name", "maybe"}, {"name"})
    assert caught.value.field == "tools[3]"
    assert fields.record({"name": 1}, "x", {"name", "maybe"}, {"name"}) == {"name": 1}


def test_every_text_of_a_json_value_is_found() -> None:
    value = {"a": ["b", {"c": "d"}, 5, None], "e": True}
    assert sorted(fields.texts_in(value)) == ["a", "b", "c", "d", "e"]
