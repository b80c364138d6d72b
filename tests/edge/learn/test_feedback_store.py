"""Feedback becomes pairs, each once, and only pairs of a bounded store are ever learned from."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fedaigc.errors import RequestInvalid, StorageError
from fedaigc.preference import Turn
from fedaigc_edge.learn import feedback_store as store_module
from fedaigc_edge.learn.feedback_store import ANSWER_DAYS, PAIR_DAYS, FeedbackStore

ASKED = [Turn("user", "why is the sky blue?")]
DAY_S = 86_400.0


class Clock:
    """Seconds that a test moves."""

    now = 1_000_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> FeedbackStore:
    return FeedbackStore(tmp_path / "learn.db", clock)


def _pair(number: int) -> dict[str, object]:
    return {"prompt": f"question {number}", "chosen": "good", "rejected": "bad"}


def _answer(store: FeedbackStore, request: str, text: str, mark: int = 1) -> None:
    store.remember_answer(request, ASKED, text, bytes([mark]) * 32)


def test_a_given_pair_is_kept_and_comes_back(store: FeedbackStore, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "你好"}]
    identifier = store.add({"messages": messages, "chosen": "您好！", "rejected": "走开"})
    (pair,) = FeedbackStore(tmp_path / "learn.db").pairs()
    assert (pair.id, pair.source, pair.weight, pair.commitments) == (identifier, "pair", 1.0, ())
    assert (pair.prompt, pair.chosen, pair.rejected) == ((Turn("user", "你好"),), "您好！", "走开")
    assert stat.S_IMODE((tmp_path / "learn.db").stat().st_mode) == 0o600


def test_the_same_pair_twice_is_one_and_a_reversed_one_replaces_it(store: FeedbackStore) -> None:
    first = store.add(_pair(1))
    assert store.add(_pair(1)) == first
    assert store.count() == 1
    store.add({"prompt": "question 1", "chosen": "bad", "rejected": "good"})
    (pair,) = store.pairs()
    assert (pair.chosen, pair.rejected) == ("bad", "good")


def test_an_edited_answer_is_preferred_to_the_recorded_one(store: FeedbackStore) -> None:
    _answer(store, "chatcmpl-1", "because of scatering")
    store.add({"request_id": "chatcmpl-1", "edited": "because of scattering"})
    (pair,) = store.pairs()
    assert (pair.chosen, pair.rejected) == ("because of scattering", "because of scatering")
    assert (pair.source, pair.commitments, pair.prompt) == ("edit", (b"\x01" * 32,), tuple(ASKED))
    store.add({"request_id": "chatcmpl-1", "edited": "because of Rayleigh scattering"})
    assert [kept.chosen for kept in store.pairs()] == ["because of Rayleigh scattering"]
    with pytest.raises(RequestInvalid) as caught:
        store.add({"request_id": "chatcmpl-1", "edited": "because of scatering"})
    assert caught.value.field == "edited"


@pytest.mark.parametrize("order", [("up", "down"), ("down", "up")])
def test_opposite_thumbs_on_one_prompt_make_one_pair(store: FeedbackStore, order: tuple[str, str]) -> None:
    _answer(store, "one", "first answer", 1)
    _answer(store, "two", "second answer", 2)
    store.remember_answer("three", [Turn("user", "something else")], "third", bytes(32))
    store.add({"request_id": "three", "rating": order[1]})
    store.add({"request_id": "one", "rating": order[0]})
    assert store.count() == 0
    store.add({"request_id": "two", "rating": order[1]})
    (pair,) = store.pairs()
    best = {"up": ("first answer", b"\x01"), "down": ("second answer", b"\x02")}[order[0]]
    assert (pair.chosen, pair.source) == (best[0], "thumbs")
    assert pair.commitments[0] == best[1] * 32
    assert len(pair.commitments) == 2


def test_a_rated_answer_is_in_one_pair_at_most_and_equal_answers_make_none(store: FeedbackStore) -> None:
    _answer(store, "one", "good")
    _answer(store, "two", "bad")
    _answer(store, "three", "worse")
    _answer(store, "four", "worse")
    store.add({"request_id": "one", "rating": "up"})
    store.add({"request_id": "two", "rating": "down"})
    store.add({"request_id": "three", "rating": "down"})
    assert store.count() == 1
    store.add({"request_id": "four", "rating": "up"})
    assert store.count() == 1


def test_a_thumb_may_be_changed_until_it_is_paired(store: FeedbackStore) -> None:
    _answer(store, "one", "first")
    _answer(store, "two", "second")
    store.add({"request_id": "one", "rating": "up"})
    store.add({"request_id": "one", "rating": "down"})
    store.add({"request_id": "two", "rating": "up"})
    (pair,) = store.pairs()
    assert (pair.chosen, pair.rejected) == ("second", "first")


def test_answers_are_forgotten_by_age_and_number(
    store: FeedbackStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_ANSWERS", 2)
    for name in ("one", "two", "three"):
        _answer(store, name, f"answer {name}")
    with pytest.raises(RequestInvalid) as caught:
        store.add({"request_id": "one", "rating": "up"})
    assert caught.value.field == "request_id"
    store.add({"request_id": "two", "rating": "up"})
    clock.now += (ANSWER_DAYS + 1) * DAY_S
    _answer(store, "four", "answer four")
    with pytest.raises(RequestInvalid):
        store.add({"request_id": "three", "rating": "up"})


def test_empty_and_overlong_answers_are_not_remembered(store: FeedbackStore) -> None:
    _answer(store, "empty", "  ")
    _answer(store, "long", "x" * 40_000)
    for name in ("empty", "long"):
        with pytest.raises(RequestInvalid):
            store.add({"request_id": name, "rating": "up"})


def test_a_full_store_refuses_new_pairs_and_keeps_the_old(
    store: FeedbackStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_DEVICE_PAIRS", 2)
    kept = [store.add(_pair(number)) for number in range(2)]
    with pytest.raises(StorageError, match="full"):
        store.add(_pair(3))
    assert [pair.id for pair in store.pairs()] == kept


def test_old_pairs_go_by_age_alone(store: FeedbackStore, clock: Clock) -> None:
    store.add(_pair(1))
    clock.now += (PAIR_DAYS + 1) * DAY_S
    store.add(_pair(2))
    assert [pair.prompt[0].content for pair in store.pairs()] == ["question 2"]


def test_used_pairs_stay_for_later_rounds(store: FeedbackStore) -> None:
    first, second = store.add(_pair(1)), store.add(_pair(2))
    store.mark_used([first])
    assert (store.count(), store.count(unused=True)) == (2, 1)
    assert [pair.id for pair in store.pairs(unused=True)] == [second]
    assert len(store.pairs()) == 2


def test_deleted_text_is_overwritten_on_the_disk(store: FeedbackStore, tmp_path: Path, clock: Clock) -> None:
    store.add({"prompt": "forget-me-not", "chosen": "good", "rejected": "bad"})
    clock.now += (PAIR_DAYS + 1) * DAY_S
    store.add(_pair(2))
    store.close()
    assert b"forget-me-not" not in (tmp_path / "learn.db").read_bytes()
