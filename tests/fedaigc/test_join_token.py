from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.errors import JoinTokenError
from fedaigc.join_token import JoinToken, new_secret

TOKEN = JoinToken("server.example:8443", "ab" * 32, "01" * 16, 1_800_000_000, "eu-west")


@given(st.text(min_size=1, max_size=60).filter(str.isprintable), st.integers(0, 2**40))
def test_a_printed_token_reads_back(region: str, expires: int) -> None:
    token = JoinToken("h:1", "cd" * 32, new_secret(), expires, region)
    assert JoinToken.decode(token.encode()) == token


def test_a_double_click_selects_the_whole_token() -> None:
    assert TOKEN.encode().isalnum()
    assert TOKEN.encode().isascii()


def test_line_breaks_and_spaces_from_a_terminal_do_no_harm() -> None:
    text = TOKEN.encode()
    assert JoinToken.decode(f"  {text[:40]}\n{text[40:]} \n") == TOKEN


def test_every_single_mistyped_character_is_caught() -> None:
    text = TOKEN.encode()
    for place in range(len(text)):
        other = "z" if text[place] != "z" else "y"
        with pytest.raises(JoinTokenError, match="copy it again"):
            JoinToken.decode(text[:place] + other + text[place + 1 :])


def test_a_token_cut_short_anywhere_is_called_incomplete() -> None:
    text = TOKEN.encode()
    for cut in range(len("fedaigc1"), len(text)):
        with pytest.raises(JoinTokenError, match=r"incomplete: its end is missing.*copy it again"):
            JoinToken.decode(text[:cut])


@pytest.mark.parametrize("start", [1, 8, 30])
def test_a_token_without_its_beginning_is_told(start: int) -> None:
    with pytest.raises(JoinTokenError, match="beginning is missing"):
        JoinToken.decode(TOKEN.encode()[start:])


def test_one_mistyped_character_is_not_called_a_missing_end() -> None:
    text = TOKEN.encode()
    with pytest.raises(JoinTokenError, match="mistyped"):
        JoinToken.decode(text[:20] + ("y" if text[20] == "z" else "z") + text[21:])
    with pytest.raises(JoinTokenError, match="characters that no token has"):
        JoinToken.decode(text[:20] + "1" + text[21:])


def test_a_huge_token_is_refused_before_decoding() -> None:
    with pytest.raises(JoinTokenError):
        JoinToken.decode("fedaigc1" + "a" * 10_000_000)


def test_neither_repr_nor_id_gives_the_secret_away() -> None:
    assert TOKEN.secret not in repr(TOKEN)
    assert TOKEN.token_id not in TOKEN.secret
