"""An answer in OpenAI's byte-exact form: one completion object, or server-sent events."""

from __future__ import annotations

import json
from typing import Any

from fedaigc_edge.serve.answer import AnswerHead
from fedaigc_edge.serve.sealed_answer import SealedAnswer

DONE = b"data: [DONE]\n\n"

# JSON allows these raw, but many readers of event streams take them for line ends.
_LINE_ENDS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}


def completion(sealed: SealedAnswer, created: int) -> dict[str, Any]:
    """The body of a whole answer; `created` in Unix seconds."""
    answer = sealed.answer
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": answer.text, "refusal": None},
        "logprobs": None,
        "finish_reason": answer.finish,
    }
    return {
        "id": answer.head.reservation.permit.request.id,
        "object": "chat.completion",
        "created": created,
        "model": answer.head.model,
        "choices": [choice],
        "usage": _usage(sealed),
        "fedaigc": _evidence(sealed),
    }


class ChunkForm:
    """The chunks of one streamed answer. Its head is the same in all of them."""

    def __init__(self, head: AnswerHead, created: int, include_usage: bool) -> None:
        self._include_usage = include_usage
        self._same = {
            "id": head.reservation.permit.request.id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": head.model,
        }

    def first(self) -> bytes:
        """The chunk that names the role."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def text(self, text: str) -> bytes:
        """The next piece of text."""
        return self._chunk({"content": text})

    def last(self, sealed: SealedAnswer) -> bytes:
        """The chunk that says why the answer ended, the usage if it was asked for, and the end mark.

        Takes a SealedAnswer, so an answer that was not recorded cannot be ended.
        """
        events = self._chunk({}, sealed.answer.finish, fedaigc=_evidence(sealed))
        if self._include_usage:
            events += event({**self._same, "choices": [], "usage": _usage(sealed)})
        return events + DONE

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **extra: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self._include_usage else {}
        return event({**self._same, "choices": [choice], **usage, **extra})


def event(value: dict[str, Any]) -> bytes:
    """One server-sent event with a JSON value."""
    return b"data: " + json_bytes(value) + b"\n\n"


def json_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8 on one line, whichever characters a reader takes for line ends."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_LINE_ENDS).encode("utf-8") if not text.isascii() else text.encode("ascii")


def _usage(sealed: SealedAnswer) -> dict[str, int]:
    prompt, completed = len(sealed.answer.head.reservation.prompt), sealed.answer.tokens
    return {"prompt_tokens": prompt, "completion_tokens": completed, "total_tokens": prompt + completed}


def _evidence(sealed: SealedAnswer) -> dict[str, Any]:
    return {
        "request_id": sealed.answer.head.reservation.permit.request.id,
        "policy_version": sealed.answer.head.policy,
        "fingerprint_seq": sealed.evidence.seq,
    }
