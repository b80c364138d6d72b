"""A lone thumb is told to be one; everything else is a pair."""

from __future__ import annotations

from pathlib import Path

from fedaigc.preference import Turn
from fedaigc_edge.learn.feedback_reply import MISSING, feedback_reply
from fedaigc_edge.learn.feedback_store import FeedbackStore


def test_a_thumb_is_no_pair_until_its_opposite_comes_and_then_both_are(tmp_path: Path) -> None:
    store = FeedbackStore(tmp_path / "learn.db")
    for request, text in (("one", "first answer"), ("two", "second answer")):
        store.remember_answer(request, [Turn("user", "why?")], text, bytes(32))
    up, down = {"request_id": "one", "rating": "up"}, {"request_id": "two", "rating": "down"}
    lone = feedback_reply(store.add(up))
    assert (lone["pair"], lone["missing"]) == (False, MISSING)
    for judged in (down, up, down):
        reply = feedback_reply(store.add(judged))
        assert reply["pair"] is True
        assert "missing" not in reply
    assert store.count() == 1


def test_a_given_pair_is_a_pair(tmp_path: Path) -> None:
    store = FeedbackStore(tmp_path / "learn.db")
    identifier = store.add({"prompt": "why?", "chosen": "because", "rejected": "dunno"})
    assert feedback_reply(identifier) == {"object": "fedaigc.feedback", "id": identifier, "pair": True}
