"""Logprobs in OpenAI's two forms; bytes are true even of half a character."""

from __future__ import annotations

import json

from fedaigc_edge.serve.choice_text import TokenLogprob
from fedaigc_edge.serve.logprob_reply import chat_logprobs, completion_logprobs

HALF = TokenLogprob(b"\xf0\x9f", -0.5, ((b"\xf0\x9f", -0.5), (b" a", -1.5), (b"", -3.0)), 0)
REST = TokenLogprob(b"\x99\x82", -0.25, ((b"b", -0.125),), 0)


def test_a_chat_token_has_its_own_bytes_and_as_many_alternatives_as_were_asked_for() -> None:
    assert chat_logprobs([HALF, REST], 2) == {
        "content": [
            {
                "token": "\\xf0\\x9f",
                "logprob": -0.5,
                "bytes": [0xF0, 0x9F],
                "top_logprobs": [
                    {"token": "\\xf0\\x9f", "logprob": -0.5, "bytes": [0xF0, 0x9F]},
                    {"token": " a", "logprob": -1.5, "bytes": [0x20, 0x61]},
                ],
            },
            {
                "token": "\\x99\\x82",
                "logprob": -0.25,
                "bytes": [0x99, 0x82],
                "top_logprobs": [{"token": "b", "logprob": -0.125, "bytes": [0x62]}],
            },
        ],
        "refusal": None,
    }
    assert chat_logprobs([HALF], 0)["content"][0]["top_logprobs"] == []


def test_a_special_token_has_no_bytes() -> None:
    assert chat_logprobs([HALF], 3)["content"][0]["top_logprobs"][2] == {
        "token": "",
        "logprob": -3.0,
        "bytes": None,
    }


def test_a_completions_alternatives_always_hold_the_token_that_was_chosen() -> None:
    assert completion_logprobs([HALF, REST], 1) == {
        "tokens": ["bytes:\\xf0\\x9f", "bytes:\\x99\\x82"],
        "token_logprobs": [-0.5, -0.25],
        "top_logprobs": [{"bytes:\\xf0\\x9f": -0.5}, {"b": -0.125, "bytes:\\x99\\x82": -0.25}],
        "text_offset": [0, 0],
    }
    assert completion_logprobs([HALF], 0)["top_logprobs"] is None
    json.dumps(completion_logprobs([HALF, REST], 5))
