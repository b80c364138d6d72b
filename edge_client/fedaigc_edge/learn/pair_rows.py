"""One packed row a pair, [prompt | chosen | rejected], so that one row is one unit of privacy.

The usual form, all chosen answers then all rejected ones in a batch of 2B rows, gives per-answer gradients:
a pair then moves the clipped sum by twice the clip norm, silently. Here both answers of a pair share one
row: each token sees the prompt and its own answer only (a tree mask), and positions go on from the prompt
in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedaigc.errors import TrainingFailed
from fedaigc.preference import Preference

MAX_PROMPT_TOKENS = 96
"""The end of the prompt is kept: it holds the question."""

MAX_ANSWER_TOKENS = 96
PADDING, PROMPT, CHOSEN, REJECTED = -1, 0, 1, 2

Integers = npt.NDArray[np.int64]


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that packing needs."""

    eos_token_id: int | None

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> str:
        """The conversation as the text that the model was trained on."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The text's tokens."""


@dataclass(frozen=True)
class PairTokens:
    """The tokens of one pair; `repr` shows only how many."""

    prompt: tuple[int, ...]
    chosen: tuple[int, ...]
    rejected: tuple[int, ...]
    weight: float = 1.0

    def __repr__(self) -> str:
        """The length alone."""
        return f"PairTokens({len(self)} tokens)"

    def __len__(self) -> int:
        return len(self.prompt) + len(self.chosen) + len(self.rejected)


@dataclass(frozen=True)
class PackedPairs:
    """Pairs as rectangular arrays of shape (pairs, length), padded at the end.

    Args:
        tokens: token ids.
        positions: the position that each token has in its own conversation.
        segments: PADDING, PROMPT, CHOSEN or REJECTED.
        sources: for each answer token, the place in the row that predicts it; 0 elsewhere.
        weights: (pairs,), each pair's share of the loss.
    """

    tokens: Integers
    positions: Integers
    segments: Integers
    sources: Integers
    weights: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return int(self.tokens.shape[0])


def pair_tokens(tokenizer: Tokenizer, pair: Preference) -> PairTokens:
    """The pair's tokens: the last 96 of the prompt, the first 96 of each answer with its end mark if it fits.

    Raises TrainingFailed when one of the three has none.
    """
    turns = [{"role": turn.role, "content": turn.content} for turn in pair.prompt]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    prompt = tokenizer.encode(text, add_special_tokens=False)[-MAX_PROMPT_TOKENS:]
    chosen, rejected = (_answer_tokens(tokenizer, answer) for answer in (pair.chosen, pair.rejected))
    if not prompt or not chosen or not rejected:
        raise TrainingFailed(
            "A pair has no tokens", "the tokenizer gives nothing for it", "export the model again"
        )
    return PairTokens(tuple(prompt), chosen, rejected, pair.weight)


def _answer_tokens(tokenizer: Tokenizer, answer: str) -> tuple[int, ...]:
    tokens = tokenizer.encode(answer, add_special_tokens=False)
    if tokenizer.eos_token_id is not None:
        tokens = [*tokens, tokenizer.eos_token_id]
    return tuple(tokens[:MAX_ANSWER_TOKENS])


def pack(rows: Sequence[PairTokens]) -> PackedPairs:
    """The rows as arrays. Raises TrainingFailed for no rows: an empty batch breaks the attention."""
    if not rows:
        raise TrainingFailed("There are no pairs to learn from", "", "give feedback first")
    shape = (len(rows), max(len(row) for row in rows))
    tokens, positions, sources = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    segments = np.full(shape, PADDING, dtype=np.int64)
    for number, row in enumerate(rows):
        p, c, r = len(row.prompt), len(row.chosen), len(row.rejected)
        end = p + c + r
        tokens[number, :end] = [*row.prompt, *row.chosen, *row.rejected]
        positions[number, :end] = [*range(p), *range(p, p + c), *range(p, p + r)]
        segments[number, :end] = [PROMPT] * p + [CHOSEN] * c + [REJECTED] * r
        sources[number, p:end] = np.arange(p, end) - 1
        # The first token of the rejected answer follows the prompt, not the chosen answer before it.
        sources[number, p + c] = p - 1
    weights = np.array([row.weight for row in rows], dtype=np.float32)
    return PackedPairs(tokens, positions, segments, sources, weights)


def visible(packed: PackedPairs) -> npt.NDArray[np.bool_]:
    """Which token may look at which, (pairs, length, length): the past of its own answer and the prompt.

    Every token sees itself, padding too, so that no row of the attention is empty.
    """
    asking, seen = packed.segments[:, :, None], packed.segments[:, None, :]
    same = (asking == seen) | ((seen == PROMPT) & (asking > PROMPT))
    length = packed.tokens.shape[1]
    past = np.tril(np.ones((length, length), dtype=np.bool_))[None]
    allowed: npt.NDArray[np.bool_] = (same & (asking >= 0) & past) | np.eye(length, dtype=np.bool_)[None]
    return allowed


def batches(rows: Sequence[PairTokens], size: int) -> list[PackedPairs]:
    """All rows in batches of at most `size`, longest first, so that little is padded."""
    ordered = sorted(rows, key=len, reverse=True)
    return [pack(ordered[start : start + size]) for start in range(0, len(ordered), size)]
