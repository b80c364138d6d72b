"""Logprobs in the two forms that OpenAI's routes have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedaigc_edge.serve.choice_text import TokenLogprob


def chat_logprobs(tokens: Sequence[TokenLogprob], top: int) -> dict[str, Any]:
    """The chat route's form, with the `top` likeliest tokens at each place.

    `bytes` are the token's own, also when it is a part of a character; its `token` then shows them escaped.
    A special token has neither.
    """
    content = [
        {
            **_entry(token.data, token.logprob),
            "top_logprobs": [_entry(data, logprob) for data, logprob in token.top[:top]],
        }
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def completion_logprobs(tokens: Sequence[TokenLogprob], top: int) -> dict[str, Any]:
    """The completions route's form; `text_offset` counts from the start of the choice's text."""
    return {
        "tokens": [_shown(token.data, "bytes:") for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [_likeliest(token, top) for token in tokens] if top else None,
        "text_offset": [token.offset for token in tokens],
    }


def _likeliest(token: TokenLogprob, top: int) -> dict[str, float]:
    shown = {_shown(data, "bytes:"): logprob for data, logprob in token.top[:top]}
    # As OpenAI has it: the chosen token is always there, so that there may be one more than asked for.
    return {**shown, _shown(token.data, "bytes:"): token.logprob}


def _entry(data: bytes, logprob: float) -> dict[str, Any]:
    return {"token": _shown(data), "logprob": logprob, "bytes": list(data) if data else None}


def _shown(data: bytes, prefix: str = "") -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return prefix + "".join(f"\\x{byte:02x}" for byte in data)
