"""A body is one JSON object, or refused without a word of it."""

from __future__ import annotations

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve.json_body import MAX_BODY_BYTES, read_json


def test_an_object_is_read_and_half_a_pair_only_where_fields_are_checked() -> None:
    assert read_json(b'{"a": "\xc3\xa9"}') == {"a": "é"}
    assert read_json(b'{"a": "\\ud800"}', whole_text=False) == {"a": "\ud800"}


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b'{"secret": "\\ud800"}', b"\xff", b'{"secret": ' + b" " * MAX_BODY_BYTES]
)
def test_everything_else_is_refused_and_not_quoted(data: bytes) -> None:
    with pytest.raises(RequestInvalid) as caught:
        read_json(data)
    assert "secret" not in str(caught.value)
