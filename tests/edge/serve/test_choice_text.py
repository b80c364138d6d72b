"""A choice's text, its tokens and its end, however pieces are cut."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc_edge.engine.generator import Piece
from fedaigc_edge.engine.sampling import TokenChoice
from fedaigc_edge.serve.choice_text import ChoiceText, Delta


def pieces_of(tokens: list[bytes], finish: str) -> tuple[list[Piece], list[bytes]]:
    """One piece a token, as an engine makes them, with whole characters only."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces = [
        Piece(decoder.decode(token), 1, None, (TokenChoice(number, -float(number)),))
        for number, token in enumerate(tokens)
    ]
    end = Piece(decoder.decode(b"", final=True), 1, finish, (TokenChoice(len(tokens), -0.5),))
    return [*pieces, end], [*tokens, b""]


def fed(
    pieces: list[Piece], table: list[bytes], stops: tuple[str, ...] = ()
) -> tuple[ChoiceText, list[Delta]]:
    choice = ChoiceText(2, stops, 10_000, lambda token: table[token])
    return choice, [choice.feed(piece) for piece in pieces]


@st.composite
def split_text(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    text = draw(st.text(st.sampled_from("ab é绝🙂 STOP"), max_size=40))
    data = text.encode()
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(data) - 1)), max_size=20)))
    return text, [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if data[a:b]]


@given(split_text(), st.sets(st.sampled_from(["STOP", "é", "b ", "🙂S", "zz"]), max_size=3))
def test_whatever_the_borders_of_tokens_the_text_ends_before_the_first_stop(
    made: tuple[str, list[bytes]], stops: set[str]
) -> None:
    text, tokens = made
    choice, deltas = fed(*pieces_of(tokens, "stop"), tuple(sorted(stops)))
    found = min((at for stop in stops if (at := text.find(stop)) >= 0), default=None)
    expected = text if found is None else text[:found]
    shown = "".join(delta.text for delta in deltas)
    # A stop is found with the first token that completes one; an earlier but longer one may still be open.
    assert shown == expected or (found is not None and shown in text and not any(s in shown for s in stops))
    assert choice.finish == "stop"
    assert {delta.index for delta in deltas} == {2}


@given(split_text())
def test_the_bytes_of_the_logprobs_are_the_text_and_come_with_it(made: tuple[str, list[bytes]]) -> None:
    text, tokens = made
    choice, deltas = fed(*pieces_of(tokens, "stop"))
    logprobs = [token for delta in deltas for token in delta.logprobs]
    assert b"".join(token.data for token in logprobs).decode() == text
    assert [token.logprob for token in logprobs] == [-float(number) for number in range(len(tokens))]
    assert [token.offset for token in logprobs] == sorted(token.offset for token in logprobs)
    assert choice.tokens == len(tokens) + 1


def test_the_tokens_of_a_stop_sequence_have_no_logprobs() -> None:
    choice, deltas = fed(*pieces_of([b"ab", b"ST", b"OP", b"c"], "length"), ("STOP",))
    assert "".join(delta.text for delta in deltas) == "ab"
    assert [token.data for delta in deltas for token in delta.logprobs] == [b"ab"]
    assert (choice.finish, choice.tokens, choice.ended) == ("stop", 3, True)


def test_a_token_that_lies_on_both_sides_of_a_stop_is_shown() -> None:
    _, deltas = fed(*pieces_of([b"abST", b"OP"], "stop"), ("STOP",))
    assert [(token.data, token.offset) for delta in deltas for token in delta.logprobs] == [(b"abST", 0)]


@pytest.mark.parametrize(("finish", "kept"), [("stop", [b"a"]), ("length", [b"a", b""])])
def test_the_end_mark_is_no_token_of_the_text_but_a_special_token_elsewhere_is(
    finish: str, kept: list[bytes]
) -> None:
    _, deltas = fed(*pieces_of([b"a"], finish))
    assert [token.data for delta in deltas for token in delta.logprobs] == kept


def test_several_tokens_in_one_piece_have_their_own_offsets() -> None:
    table = [b"a", b"\xc3", b"\xa9", b"c"]
    piece = Piece("aéc", 4, "length", tuple(TokenChoice(number, -1.0) for number in range(4)))
    _, (delta,) = fed([piece], table)
    assert [token.offset for token in delta.logprobs] == [0, 1, 1, 1]


def test_what_passes_the_limit_is_cut() -> None:
    choice = ChoiceText(0, (), 2, lambda token: b"")
    assert choice.feed(Piece("a", 1)).text == "a"
    assert choice.feed(Piece("bc", 2)).text == ""
    assert (choice.finish, choice.tokens, choice.ended) == ("length", 1, True)
    assert choice.feed(Piece("d", 1)).text == ""


def test_neither_text_nor_tokens_are_in_a_repr() -> None:
    _, deltas = fed(*pieces_of([b"secret"], "stop"))
    assert "secret" not in repr(deltas)
