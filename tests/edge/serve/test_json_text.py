"""Bytes that no reader of events can break."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from fedaigc_edge.serve.json_text import DONE, event, json_bytes


def test_an_event_is_one_line_and_an_empty_one() -> None:
    assert event({"a": "é"}) == b'data: {"a":"\xc3\xa9"}\n\n'
    assert DONE == b"data: [DONE]\n\n"


@given(st.text(st.characters(codec="utf-8")))
def test_no_text_can_break_an_events_line_for_any_reader(text: str) -> None:
    data = json_bytes({"t": text})
    assert json.loads(data) == {"t": text}
    assert len(data.decode("utf-8").splitlines()) == 1
