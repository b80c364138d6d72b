"""One row is one pair, and each answer sees the prompt and itself only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedaigc.errors import TrainingFailed
from fedaigc.preference import Preference, Turn
from fedaigc_edge.learn.pair_rows import (
    CHOSEN,
    PADDING,
    PROMPT,
    REJECTED,
    PairTokens,
    batches,
    pack,
    pair_tokens,
    visible,
)

ROWS = [PairTokens((1, 2, 3), (4, 5), (6, 7, 8)), PairTokens((9,), (10,), (11,), 0.5)]


class Letters:
    """A tokenizer of one token a character."""

    eos_token_id: int | None = 0

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> str:
        assert options == {"tokenize": False, "add_generation_prompt": True}
        return "".join(f"{turn['role'][0]}:{turn['content']}\n" for turn in conversation) + "a:"

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(letter) for letter in text]


def _pair(prompt: str, chosen: str, rejected: str) -> Preference:
    return Preference("p", (Turn("user", prompt),), chosen, rejected, "pair")


def test_a_row_holds_prompt_chosen_and_rejected_and_positions_restart_after_the_prompt() -> None:
    packed = pack(ROWS)
    assert packed.tokens.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 0, 0, 0, 0, 0]]
    assert packed.positions[0].tolist() == [0, 1, 2, 3, 4, 3, 4, 5]
    assert packed.segments[0].tolist() == [PROMPT] * 3 + [CHOSEN] * 2 + [REJECTED] * 3
    assert packed.segments[1].tolist() == [PROMPT, CHOSEN, REJECTED] + [PADDING] * 5
    assert packed.weights.tolist() == [1.0, 0.5]
    assert len(packed) == 2


def test_the_first_token_of_each_answer_is_predicted_from_the_prompt_s_last() -> None:
    packed = pack(ROWS)
    assert packed.sources[0].tolist() == [0, 0, 0, 2, 3, 2, 5, 6]
    assert packed.sources[1].tolist()[:3] == [0, 0, 0]


def test_no_answer_sees_the_other_nor_the_future() -> None:
    packed = pack(ROWS)
    allowed = visible(packed)
    length = packed.tokens.shape[1]
    for row in range(2):
        for asking in range(length):
            for seen in range(length):
                mine, theirs = packed.segments[row, asking], packed.segments[row, seen]
                wanted = asking == seen or (
                    mine >= 0 and seen < asking and theirs >= 0 and theirs in (PROMPT, mine)
                )
                assert allowed[row, asking, seen] == wanted


def test_long_prompts_keep_their_end_and_long_answers_their_beginning() -> None:
    row = pair_tokens(Letters(), _pair("x" * 200 + "end?", "c" * 200, "r"))
    assert len(row.prompt) == 96 and bytes(row.prompt).endswith(b"end?\na:")
    assert row.chosen == (ord("c"),) * 96
    assert row.rejected == (ord("r"), 0)


def test_the_whole_prompt_of_a_conversation_is_used_and_weight_is_kept() -> None:
    pair = Preference("p", (Turn("system", "s"), Turn("user", "u")), "a", "b", "pair", weight=0.25)
    row = pair_tokens(Letters(), pair)
    assert bytes(row.prompt) == b"s:s\nu:u\na:"
    assert row.weight == 0.25


def test_neither_rows_nor_errors_show_tokens() -> None:
    assert repr(ROWS[0]) == "PairTokens(8 tokens)"

    class Nothing(Letters):
        eos_token_id: int | None = None

        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            return []

    with pytest.raises(TrainingFailed, match="no tokens"):
        pair_tokens(Nothing(), _pair("secret", "one", "two"))


def test_every_pair_is_in_exactly_one_batch_longest_first() -> None:
    rows = [PairTokens((1,) * n, (2,), (3,)) for n in (3, 9, 1, 5, 7)]
    packed = batches(rows, 2)
    assert [len(batch) for batch in packed] == [2, 2, 1]
    lengths = [int((batch.segments[i] >= 0).sum()) for batch in packed for i in range(len(batch))]
    assert lengths == sorted((len(row) for row in rows), reverse=True)
    assert np.concatenate([batch.weights for batch in packed]).sum() == 5


def test_no_pairs_make_no_batch() -> None:
    assert batches([], 2) == []
    with pytest.raises(TrainingFailed, match="no pairs"):
        pack([])
