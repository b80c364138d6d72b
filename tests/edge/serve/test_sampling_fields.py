"""How tokens are chosen is read with OpenAI's ranges and defaults."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.errors import RequestInvalid
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.serve.sampling_fields import MAX_BIASES, SAMPLING_FIELDS, max_tokens, read_sampling


def test_nothing_or_null_is_openais_default() -> None:
    assert read_sampling({}, None) == Sampling(max_tokens=0)
    assert read_sampling(dict.fromkeys(SAMPLING_FIELDS), None) == Sampling(max_tokens=0)


@given(st.dictionaries(st.integers(0, 10**9 - 1), st.floats(-100, 100), max_size=20))
def test_every_bias_in_range_arrives(biases: dict[int, float]) -> None:
    body = {"logit_bias": {str(token): bias for token, bias in biases.items()}}
    assert read_sampling(body, None).logit_bias == biases


@pytest.mark.parametrize(
    "value",
    [
        [],
        "x",
        {"": 1},
        {"²": 1},
        {" 1": 1},
        {"1e3": 1},
        {"1" * 10: 1},
        {"1": None},
        {"1": "5"},
        {"1": 100.1},
        {"1": float("nan")},
        {str(number): 0 for number in range(MAX_BIASES + 1)},
    ],
)
def test_a_bias_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(RequestInvalid) as caught:
        read_sampling({"logit_bias": value}, None)
    assert caught.value.field == "logit_bias"


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("temperature", 0, 2),
        ("min_p", 0, 1),
        ("presence_penalty", -2, 2),
        ("frequency_penalty", -2, 2),
        ("repetition_penalty", 0.01, 10),
    ],
)
def test_a_number_may_lie_on_its_bounds_and_not_beyond(field: str, low: float, high: float) -> None:
    for value in (low, high):
        assert getattr(read_sampling({field: value}, None), field) == value
    for value in (low - 0.001, high + 0.001, float("nan")):
        with pytest.raises(RequestInvalid):
            read_sampling({field: value}, None)


def test_the_limit_has_two_names_that_may_not_differ() -> None:
    assert max_tokens({"max_tokens": 5}) == max_tokens({"max_completion_tokens": 5}) == 5
    assert max_tokens({}) is None
    with pytest.raises(RequestInvalid):
        max_tokens({"max_tokens": 5, "max_completion_tokens": 6})
