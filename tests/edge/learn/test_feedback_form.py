"""Three forms are feedback; everything else is refused by the field's name, without its text."""

from __future__ import annotations

from typing import Any

import pytest

from fedaigc.errors import RequestInvalid
from fedaigc.preference import MAX_TEXT, Turn
from fedaigc_edge.learn.feedback_form import EditedAnswer, JudgedPair, Thumb, read_feedback

ASKED = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why?"}]
PAIR = {"messages": ASKED, "chosen": "because", "rejected": "dunno"}


def test_each_form_is_read() -> None:
    pair = read_feedback(PAIR)
    assert pair == JudgedPair((Turn("system", "be brief"), Turn("user", "why?")), "because", "dunno")
    short = read_feedback({"prompt": "why?", "chosen": "because", "rejected": "dunno"})
    assert short == JudgedPair((Turn("user", "why?"),), "because", "dunno")
    assert read_feedback({"request_id": "chatcmpl-1", "rating": "down"}) == Thumb("chatcmpl-1", False)
    assert read_feedback({"request_id": "chatcmpl-1", "edited": "好的"}) == EditedAnswer("chatcmpl-1", "好的")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "chosen"),
        ({"chosen": "a"}, "messages"),
        ({**PAIR, "chosen": ""}, "chosen"),
        ({**PAIR, "chosen": " \n"}, "chosen"),
        ({**PAIR, "chosen": 3}, "chosen"),
        ({**PAIR, "chosen": "x" * (MAX_TEXT + 1)}, "chosen"),
        ({**PAIR, "chosen": "\ud800"}, "chosen"),
        ({**PAIR, "rejected": "because"}, "rejected"),
        ({**PAIR, "weight": 2}, "weight"),
        ({**PAIR, "messages": []}, "messages"),
        ({**PAIR, "messages": ASKED * 40}, "messages"),
        ({**PAIR, "messages": [ASKED[0]]}, "messages"),
        ({**PAIR, "messages": [{"role": "robot", "content": "x"}]}, "messages[0]"),
        ({**PAIR, "messages": [{"role": ["user"], "content": "x"}]}, "messages[0]"),
        ({**PAIR, "messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content"),
        ({**PAIR, "messages": [{"role": "user"}]}, "messages[0]"),
        ({"request_id": "c", "rating": "sideways"}, "rating"),
        ({"request_id": "c", "rating": ["up"]}, "rating"),
        ({"rating": "up"}, "request_id"),
        ({"request_id": "x" * 65, "rating": "up"}, "request_id"),
        ({"request_id": "c", "rating": "up", "edited": "x"}, "edited"),
        ({"request_id": "c", "edited": ""}, "edited"),
    ],
)
def test_what_is_wrong_is_named_by_its_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        read_feedback(body)
    assert caught.value.field == field


def test_no_error_and_no_form_shows_a_text() -> None:
    with pytest.raises(RequestInvalid) as caught:
        read_feedback({"messages": ASKED, "chosen": "my secret", "rejected": "my secret"})
    assert "secret" not in f"{caught.value} {caught.value.as_json()}"
    assert "because" not in repr(read_feedback(PAIR))
