"""Fields of a foreign record are read with their type and range, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from fedaigc.errors import VerificationFailed
from fedaigc.fields import Fields, fields_of


@pytest.mark.parametrize("value", [None, True, "1", 1.5, -1, 11, 2**60, [1]])
def test_an_integer_outside_its_range_or_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(VerificationFailed, match="x is wrong"):
        Fields({"x": value}, "record").integer("x", 0, 10)


@pytest.mark.parametrize("value", [None, True, "1", float("nan"), float("inf"), -0.1, 10**1000])
def test_a_number_that_is_not_finite_or_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(VerificationFailed):
        Fields({"x": value}, "record").number("x")


@pytest.mark.parametrize("value", ["AB", "abc", "0x", "", 12, None])
def test_hexadecimal_has_exactly_its_digits_in_lower_case(value: Any) -> None:
    with pytest.raises(VerificationFailed):
        Fields({"x": value}, "record").hexadecimal("x", 2)


def test_good_values_come_back_as_they_are() -> None:
    fields = Fields({"i": 3, "n": 2, "t": "text", "h": "0f", "e": "", "l": [1], "d": {"k": 1}}, "record")
    assert (fields.integer("i"), fields.number("n"), fields.text("t")) == (3, 2.0, "text")
    assert (fields.hexadecimal("h", 2), fields.hexadecimal("e", 2, empty=True)) == ("0f", "")
    assert fields.listed("l", 1) == [1]
    assert fields.inner("d").integer("k") == 1


def test_unknown_and_missing_fields_are_both_named() -> None:
    with pytest.raises(VerificationFailed, match="field a is wrong"):
        Fields({"b": 1}, "record").only("a", "b")
    with pytest.raises(VerificationFailed, match="field c is wrong"):
        Fields({"b": 1, "c": 2}, "record").only("b")


def test_texts_lists_and_objects_have_limits() -> None:
    fields = Fields({"t": "abcd", "l": [1, 2]}, "record")
    with pytest.raises(VerificationFailed):
        fields.text("t", 3)
    with pytest.raises(VerificationFailed):
        fields.listed("l", 1)
    with pytest.raises(VerificationFailed, match="not a JSON object"):
        fields_of([1], "record")
