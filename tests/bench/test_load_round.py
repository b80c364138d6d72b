"""What callers saw becomes rates, waits and fairness."""

from __future__ import annotations

import pytest

from bench.failure import BenchFailed
from bench.load_round import LoadRound, play
from bench.stream_caller import Heard
from tests.bench.played_server import event, framed, playing


def heard(started: float, first: float, ended: float) -> Heard:
    return Heard(started, first, ended, ended, 5, "length")


ROUND = LoadRound(((heard(0, 1, 2), heard(2, 3, 4)), (heard(0, 2, 8), heard(8, 9, 10))), 5)


def test_the_rate_counts_every_token_from_the_first_question_to_the_last_answer() -> None:
    assert ROUND.rate == 20 / 10


def test_fairness_compares_the_luckiest_caller_with_the_unluckiest() -> None:
    assert ROUND.fairness == pytest.approx((10 / 4) / (10 / 10))


def test_waits_and_paces_are_those_of_the_answers() -> None:
    assert ROUND.ttfts_s == [1, 1, 2, 1]
    assert ROUND.tpot_ms == pytest.approx(250)


def test_callers_ask_at_the_same_time_and_one_question_after_another() -> None:
    body = framed([event({"content": "a"}), event({"content": "b"}, "length"), b"data: [DONE]\n\n"])
    with playing(body) as port:
        played = play(port, [[{"max_tokens": 2}] * 3, [{"max_tokens": 2}]])
    assert [len(caller) for caller in played.callers] == [3, 1]
    assert played.callers[0][0].ended <= played.callers[0][1].started


@pytest.mark.parametrize(
    "last",
    [event({}, "stop"), event({}, "length", usage={"completion_tokens": 3})],
    ids=["ended early", "too many"],
)
def test_an_answer_of_another_length_spoils_the_round(last: bytes) -> None:
    with playing(framed([event({"content": "a"}), last])) as port, pytest.raises(BenchFailed, match="tokens"):
        play(port, [[{"max_tokens": 2}]])
