"""A model's tokens as llguidance wants to see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import llguidance

from fedaigc.errors import FedaigcError, ModelError
from fedaigc_edge.engine.text_codec import TextCodec


class _TokenTable:
    """What llguidance wants to know of a tokenizer."""

    bos_token_id = None

    def __init__(self, codec: TextCodec, ends: Sequence[int], vocabulary: int) -> None:
        self._codec = codec
        self.eos_token_id = ends[0]
        self.tokens = [codec.token_bytes(token) for token in range(vocabulary)]
        self.special_token_ids = [token for token, text in enumerate(self.tokens) if not text]
        self.greedy: Callable[[str], list[int]] = lambda text: []

    def __call__(self, text: str) -> list[int]:
        """How the model would write text that the grammar leaves no choice about."""
        if isinstance(text, bytes):
            # llguidance asks once whether bytes are taken, and sends strings to one that refuses.
            raise ModelError("Text comes as a string")
        try:
            ids = self._codec.encode(text)
        except FedaigcError:
            return self.greedy(text)
        # Some tokenizers put a space before everything, which here would be one that nobody wrote.
        whole = b"".join(self._codec.token_bytes(token) for token in ids)
        return ids if whole == text.encode() else self.greedy(text)


def grammar_tokenizer(codec: TextCodec, ends: Sequence[int], vocabulary: int) -> llguidance.LLTokenizer:
    """llguidance's view of a tokenizer, a few megabytes; given tokenizer.json it would build tens of them.

    Args:
        codec: the model's tokenizer.
        ends: the tokens that end an answer, at least one.
        vocabulary: how many logits the model gives.
    """
    table = _TokenTable(codec, ends, vocabulary)
    tokenizer = llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(table), n_vocab=vocabulary, eos_token=list(ends)
    )
    table.greedy = tokenizer.greedy_tokenize
    return tokenizer
