"""Turn tokens into text one by one, never splitting a character, from the model's own tokenizer.json.

The runtime's stream drops text after bytes that are not UTF-8, which sampling can produce. Here every token
is a known piece of bytes, and Python's incremental decoder does the rest.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedaigc.canonical import Json, parse_record
from fedaigc.errors import ModelError, VerificationFailed

TOKENIZER_FILE = "tokenizer.json"
MAX_TOKENIZER_BYTES = 64 << 20
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_META_SPACE = "\u2581"


@dataclass(frozen=True)
class TokenBytes:
    """The bytes of every token; special tokens have none. `special` holds their texts, `size` counts all
    ids."""

    table: Mapping[int, bytes]
    special: frozenset[str]
    size: int

    @classmethod
    def load(cls, folder: Path) -> TokenBytes:
        """Read the folder's tokenizer.json; raises ModelError when it is of a kind that we cannot decode."""
        path = folder / TOKENIZER_FILE
        try:
            tokenizer = parse_record(path.read_bytes(), MAX_TOKENIZER_BYTES)
            return _token_bytes(tokenizer)
        except (OSError, VerificationFailed, KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"{path} cannot be used",
                f"{type(error).__name__}: {str(error)[:200]}",
                "export the model again",
            ) from error


def _token_bytes(tokenizer: dict[str, Json]) -> TokenBytes:
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    to_bytes = _decoding(_decoders(tokenizer))
    table = {number: to_bytes(token) for token, number in vocabulary.items()}
    special = set()
    for added in tokenizer["added_tokens"]:
        is_special = added["special"] is True
        table[added["id"]] = b"" if is_special else added["content"].encode()
        if is_special:
            special.add(added["content"])
    return TokenBytes(table, frozenset(special), max(table) + 1)


def _decoders(tokenizer: dict[str, Json]) -> set[str]:
    decoder = tokenizer.get("decoder") or {}
    return {part["type"] for part in decoder.get("decoders", [decoder]) if "type" in part}


def _decoding(decoders: set[str]) -> Callable[[str], bytes]:
    if "ByteLevel" in decoders:
        table = _byte_level_table()
        return lambda token: bytes(table[character] for character in token)
    if "ByteFallback" in decoders:
        return _sentence_piece_bytes
    raise ModelError(
        "This model's tokenizer cannot be decoded",
        f"its decoder is {', '.join(sorted(decoders)) or 'not named'}; known are ByteLevel and ByteFallback",
        "choose a model of the Llama or Qwen families",
    )


def _byte_level_table() -> dict[str, int]:
    # GPT-2's table: printable bytes stand for themselves, the others are moved above 255 in order.
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in plain}
    moved = [byte for byte in range(256) if byte not in set(plain)]
    return table | {chr(256 + number): byte for number, byte in enumerate(moved)}


def _sentence_piece_bytes(token: str) -> bytes:
    single = _BYTE_TOKEN.fullmatch(token)
    return bytes([int(single[1], 16)]) if single else token.replace(_META_SPACE, " ").encode()


class Detokeniser:
    """One answer's text, token by token: complete characters only; bytes that are no UTF-8 become U+FFFD."""

    def __init__(self, tokens: TokenBytes) -> None:
        self._table = tokens.table
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: int) -> str:
        """The text that `token` completes, "" while a character is unfinished."""
        return self._decoder.decode(self._table.get(token, b""))

    def end(self) -> str:
        """What an unfinished character leaves at the end of the answer: U+FFFD, or nothing."""
        return self._decoder.decode(b"", final=True)
