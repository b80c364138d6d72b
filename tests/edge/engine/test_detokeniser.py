from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.errors import ModelError
from fedaigc_edge.engine.detokeniser import Detokeniser, TokenBytes
from tests.tiny_model import SPECIAL, make_tiny_hf_folder

TEXTS = ("the quick brown fox", "你好,世界", "👩‍👩‍👧‍👦 café e\u0301", "\t\n  x\u00a0\u0000", "العربية")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_hf_folder(tmp_path_factory.mktemp("tokens") / "hf")


@pytest.fixture(scope="module")
def tokens(folder: Path) -> TokenBytes:
    return TokenBytes.load(folder)


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def text_of(tokens: TokenBytes, ids: Iterable[int]) -> str:
    detokeniser = Detokeniser(tokens)
    return "".join([detokeniser.feed(token) for token in ids]) + detokeniser.end()


@pytest.mark.parametrize("text", TEXTS)
def test_token_by_token_gives_the_text_back(tokens: TokenBytes, reference: Any, text: str) -> None:
    assert text_of(tokens, reference.encode(text, add_special_tokens=False).ids) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives(tokens: TokenBytes, reference: Any, text: str) -> None:
    if not any(special in text for special in SPECIAL):
        assert text_of(tokens, reference.encode(text, add_special_tokens=False).ids) == text


@given(st.lists(st.integers(0, 299)))
def test_any_tokens_give_valid_text_and_no_piece_ends_inside_a_character(
    tokens: TokenBytes, ids: list[int]
) -> None:
    detokeniser = Detokeniser(tokens)
    pieces = [detokeniser.feed(token) for token in ids] + [detokeniser.end()]
    expected = b"".join(tokens.table[token] for token in ids).decode("utf-8", "replace")
    assert "".join(pieces) == expected
    assert all(piece.encode("utf-8").decode("utf-8") == piece for piece in pieces)


def test_an_unfinished_character_waits_and_is_replaced_at_the_end(tokens: TokenBytes, reference: Any) -> None:
    ids = reference.encode("👩", add_special_tokens=False).ids
    detokeniser = Detokeniser(tokens)
    assert [detokeniser.feed(token) for token in ids[:-1]] == [""] * (len(ids) - 1)
    assert detokeniser.end() == "\ufffd"


def test_text_after_broken_bytes_is_kept(tokens: TokenBytes, reference: Any) -> None:
    broken = reference.encode("👩", add_special_tokens=False).ids[:-1]
    rest = reference.encode(" the dog", add_special_tokens=False).ids
    assert text_of(tokens, [*broken, *rest]).endswith(" the dog")


def test_special_tokens_have_no_text_and_unknown_ids_none_either(tokens: TokenBytes) -> None:
    assert tokens.special == frozenset(SPECIAL)
    assert text_of(tokens, [0, 1, 2, 10**6]) == ""
    assert tokens.size == len(tokens.table) == 300


def write(folder: Path, **tokenizer: Any) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def test_a_sentence_piece_tokenizer_is_decoded_with_its_byte_tokens(tmp_path: Path) -> None:
    vocabulary = {"<s>": 0, "▁the": 1, "re": 2, "<0xE4>": 3, "<0xBD>": 4, "<0xA0>": 5}
    write(
        tmp_path,
        model={"vocab": vocabulary},
        added_tokens=[{"id": 0, "content": "<s>", "special": True}],
        decoder={
            "type": "Sequence",
            "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}],
        },
    )
    assert text_of(TokenBytes.load(tmp_path), [0, 1, 2, 3, 4, 5]) == " there你"


def test_an_added_token_that_is_not_special_is_text(tmp_path: Path) -> None:
    write(
        tmp_path,
        model={"vocab": {"a": 0}},
        added_tokens=[{"id": 1, "content": "<think>", "special": False}],
        decoder={"type": "ByteLevel"},
    )
    assert text_of(TokenBytes.load(tmp_path), [0, 1]) == "a<think>"


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"model": {"vocab": {"a": 0}}, "added_tokens": []}'])
def test_a_tokenizer_of_another_kind_is_a_model_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError):
        TokenBytes.load(tmp_path)
