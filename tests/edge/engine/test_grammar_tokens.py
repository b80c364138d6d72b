from __future__ import annotations

import pytest

from fedaigc_edge.engine.chat_template import ChatTemplate
from fedaigc_edge.engine.detokeniser import TokenBytes
from fedaigc_edge.engine.grammar_tokens import grammar_tokenizer
from fedaigc_edge.engine.text_codec import TextCodec
from tests.tiny_model import make_tiny_hf_folder


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> TextCodec:
    return TextCodec.open(make_tiny_hf_folder(tmp_path_factory.mktemp("grammar") / "hf"))


def test_text_without_a_choice_is_written_as_the_model_writes_it(codec: TextCodec) -> None:
    tokenizer = grammar_tokenizer(codec, [2], codec.vocabulary)
    for text in ("the quick brown fox", "你好", "{'a': 1}", "<|im_end|>"):
        assert tokenizer.tokenize_str(text) == codec.encode(text)
        assert tokenizer.decode_str(tokenizer.tokenize_str(text)) == text


def test_text_that_the_tokenizer_refuses_or_changes_is_still_written_exactly() -> None:
    from tokenizers import Tokenizer, models, normalizers

    vocabulary = {chr(code): code for code in range(128)}
    lower = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    lower.normalizer = normalizers.Lowercase()
    table = {number: text.encode() for text, number in vocabulary.items()}
    codec = TextCodec(lower, TokenBytes(table, frozenset(), 128), ChatTemplate(""))
    tokenizer = grammar_tokenizer(codec, [3], 128)
    assert tokenizer.tokenize_str("AbC") == [65, 98, 67]
    assert tokenizer.tokenize_str("a\0b") == [97, 0, 98]


def test_rows_beyond_the_tokenizer_and_several_ends_are_known(codec: TextCodec) -> None:
    tokenizer = grammar_tokenizer(codec, [0, 2], codec.vocabulary + 20)
    assert tokenizer.vocab_size == codec.vocabulary + 20
    assert sorted(tokenizer.eos_tokens) == [0, 2]
