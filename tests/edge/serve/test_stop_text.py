"""Stop sequences are found however the text is cut, and never leak."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedaigc_edge.serve.stop_text import StopText

LETTERS = st.text(alphabet="ab绝密", max_size=30)
STOPS = st.lists(st.text(alphabet="ab绝密", min_size=1, max_size=4), max_size=4)


def shown(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    text = StopText(stops)
    out = "".join(text.feed(piece) for piece in pieces)
    return out + text.end(), text.stopped


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places})
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


@given(LETTERS, STOPS, st.lists(st.integers(0, 100), max_size=12))
def test_the_result_does_not_depend_on_how_the_text_was_cut(
    text: str, stops: list[str], places: list[int]
) -> None:
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    whole, stopped = shown(cut(text, places), stops)
    if not found:
        assert (whole, stopped) == (text, False)
    else:
        assert stopped
        # Cut finely, the stop that is complete first wins; it may begin after one that is longer.
        assert text.startswith(whole)
        assert any(text.startswith(stop, len(whole)) for stop in stops)
        assert not any(stop in whole for stop in stops)


@given(LETTERS, STOPS)
def test_what_was_shown_never_holds_the_beginning_of_a_stop_that_came(text: str, stops: list[str]) -> None:
    stop_text = StopText(stops)
    out = ""
    for character in text:
        out += stop_text.feed(character)
        if stop_text.stopped:
            break
    if stop_text.stopped:
        assert any((out + stop) == text[: len(out) + len(stop)] for stop in stops)
        assert stop_text.feed("more") == ""
        assert stop_text.end() == ""


def test_a_stop_across_three_pieces_is_held_back() -> None:
    text = StopText(["</end>"])
    assert [text.feed(piece) for piece in ("Hi<", "/en", "d> there")] == ["Hi", "", ""]
    assert text.stopped


def test_a_false_beginning_is_shown_as_soon_as_that_is_certain() -> None:
    text = StopText(["</end>"])
    assert [text.feed(piece) for piece in ("a</", "b", "<")] == ["a", "</b", ""]
    assert text.end() == "<"


def test_the_earliest_stop_of_a_piece_wins() -> None:
    assert shown(["one two three"], ["three", "two"]) == ("one ", True)
