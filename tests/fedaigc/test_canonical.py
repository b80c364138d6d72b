from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.canonical import canonical_bytes, parse_canonical, parse_record
from fedaigc.errors import VerificationFailed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_rfc_8785_example_is_reproduced() -> None:
    # RFC 8785, section 3.2.2 and 3.2.3.
    record = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
        "literals": [None, True, False],
    }
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical_bytes(record) == expected.encode("utf-8")


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_canonical_form_reads_back_to_the_same_value(record: dict[str, object]) -> None:
    assert parse_canonical(canonical_bytes(record)) == record


@pytest.mark.parametrize("value", [float("nan"), 2**60, {"a": b"bytes"}, {"\ud800": 1}])
def test_values_that_json_cannot_hold_are_refused(value: object) -> None:
    with pytest.raises(VerificationFailed):
        canonical_bytes(value)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":2}',
        b"[1]",
        b"{",
        b"\xff",
        b'{"a":NaN}',
        b'{"a":"\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
    ],
)
def test_hostile_bytes_are_refused_without_being_quoted(data: bytes) -> None:
    with pytest.raises(VerificationFailed) as caught:
        parse_record(data)
    assert data.decode("latin-1") not in str(caught.value)


def test_a_record_over_the_limit_is_refused_before_parsing() -> None:
    with pytest.raises(VerificationFailed, match="too large"):
        parse_record(b"{" * 100, limit=99)


def test_other_spellings_of_the_same_value_are_not_canonical() -> None:
    with pytest.raises(VerificationFailed, match="canonical"):
        parse_canonical(json.dumps({"b": 1, "a": 2}).encode())
