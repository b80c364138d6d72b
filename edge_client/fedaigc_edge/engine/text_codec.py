"""Text to tokens and back with the model's own tokenizer and chat template, and no forged turns.

A caller's text may spell out a special token (`<|im_end|>`). Before the template sees it, every such
spelling is replaced by a mark; afterwards the tokenizer finds the template's own special tokens, and the
stretches between them that hold a mark are tokenised again with all of their text plain. A conversation
without such spellings takes one pass and gives exactly what transformers gives.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from fedaigc.errors import ModelError, RequestInvalid
from fedaigc_edge.engine.chat_template import ChatTemplate
from fedaigc_edge.engine.detokeniser import TOKENIZER_FILE, TokenBytes
from fedaigc_edge.model.quiet_runtime import quiet_runtimes

Offsets = Sequence[tuple[int, int]]
"""Where each token begins and ends in its text, in characters."""

_MARK = "\ue0f1"
"""Of a private-use area. A caller's own is masked like a special token, so that none can be mistaken."""
_MASKED = re.compile(_MARK + r"([0-9]{1,6});")


class TextCodec:
    """See TextEncoder, which this is; every method may be called from any thread."""

    def __init__(self, tokenizer: Tokenizer, tokens: TokenBytes, template: ChatTemplate) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._template = template
        self.tokens = tokens
        # Longest first: one special token may begin with another.
        self._masked = [*sorted(tokens.special, key=len, reverse=True), _MARK]
        self._numbers = {text: number for number, text in enumerate(self._masked)}
        self._spelling = re.compile("|".join(re.escape(text) for text in self._masked))
        ids = (tokenizer.token_to_id(text) for text in tokens.special)
        self.special_ids = frozenset(number for number in ids if number is not None)

    @classmethod
    def open(cls, folder: Path) -> TextCodec:
        """The codec of an exported model's folder. Raises ModelError."""
        tokens = TokenBytes.load(folder)
        # Among other things: no threads of its own, which would complain at every later fork.
        quiet_runtimes()
        try:
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        except Exception as error:  # the library raises bare Exception
            raise ModelError(
                f"{folder / TOKENIZER_FILE} cannot be used", str(error)[:200], "export the model again"
            ) from error
        return cls(tokenizer, tokens, ChatTemplate.open(folder))

    @property
    def vocabulary(self) -> int:
        """Tokens that the tokenizer knows; the model's logits may have a few rows more."""
        return self.tokens.size

    @property
    def takes_tools(self) -> bool:
        """See TextEncoder."""
        return self._template.takes_tools

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """See TextEncoder."""
        text = self._template.render(
            self._masked_records(messages, "messages"), self._masked_records(tools, "tools")
        )
        return self._respelled(text) if _MARK in text else self._encode(text, plain=False)

    def encode(self, text: str) -> list[int]:
        """See TextEncoder."""
        return self._encode(_readable(text, "messages"), plain=True)

    def token_bytes(self, token: int) -> bytes:
        """See TextEncoder."""
        return self.tokens.table.get(token, b"")

    def _encode(self, text: str, plain: bool) -> list[int]:
        with self._lock:
            # One tokenizer for both ways: a second would cost tens of megabytes.
            self._tokenizer.encode_special_tokens = plain
            # Of the library's ways this one lets other threads run: 4,000 tokens take 10 ms.
            (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return encoding.ids

    def _encode_with_offsets(self, text: str) -> tuple[list[int], Offsets]:
        with self._lock:
            self._tokenizer.encode_special_tokens = False
            (encoding,) = self._tokenizer.encode_batch([text], add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def _respelled(self, text: str) -> list[int]:
        """The tokens of a masked text: its special tokens, and between them what the marks stand for."""
        ids, offsets = self._encode_with_offsets(text)
        special = [place for place, token in enumerate(ids) if token in self.special_ids]
        result: list[int] = []
        start = first = 0
        for place in [*special, len(ids)]:
            end, after = offsets[place] if place < len(ids) else (len(text), len(text))
            stretch = text[start:end]
            if _MARK in stretch:
                result += self._encode(self._unmasked(stretch), plain=True)
            else:
                result += ids[first:place]
            result += ids[place : place + 1]
            start, first = after, place + 1
        return result

    def _masked_records(self, values: Sequence[Mapping[str, Any]], field: str) -> list[Any]:
        try:
            return [self._masked_record(value, field) for value in values]
        except RecursionError:
            raise RequestInvalid(
                "A message is nested too deeply", "", "send a flatter one", field=field
            ) from None

    def _masked_record(self, value: Any, field: str) -> Any:
        """A copy of what the template will see, with no special token spelled out in any text."""
        if isinstance(value, str):
            return self._spelling.sub(self._mask, _readable(value, field))
        if isinstance(value, Mapping):
            return {
                self._masked_record(key, field): self._masked_record(item, field)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._masked_record(item, field) for item in value]
        return value

    def _mask(self, match: re.Match[str]) -> str:
        return f"{_MARK}{self._numbers[match[0]]};"

    def _unmasked(self, text: str) -> str:
        def original(match: re.Match[str]) -> str:
            number = int(match[1])
            # A template may have cut a mark in two and made another number of it.
            return self._masked[number] if number < len(self._masked) else match[0]

        return _MASKED.sub(original, text)


def _readable(text: str, field: str) -> str:
    # Models have never seen either: a NUL ends a C string, and half a pair has no UTF-8 form.
    if "\0" in text or not _is_utf8(text):
        raise RequestInvalid(
            "A message holds a character that no model can read",
            "a NUL or half of a surrogate pair",
            "remove it",
            field=field,
        )
    return text


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
