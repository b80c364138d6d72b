"""A completion of raw prompts in OpenAI's byte-exact form: one object, or chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedaigc_edge.serve.answer import AnswerHead
from fedaigc_edge.serve.choice_text import Delta, TokenLogprob
from fedaigc_edge.serve.json_text import DONE, event
from fedaigc_edge.serve.logprob_reply import completion_logprobs
from fedaigc_edge.serve.openai_reply import evidence, usage
from fedaigc_edge.serve.request import GenerationRequest
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from fedaigc_edge.serve.stage_clock import StageTimes


class CompletionsForm:
    """See ReplyForm.

    Args:
        created: Unix seconds.
        include_usage: whether a stream ends with the usage.
    """

    def __init__(self, request: GenerationRequest, created: int, include_usage: bool) -> None:
        self._request = request
        self._created = created
        self._include_usage = include_usage
        self._same: dict[str, Any] = {}

    def whole(self, sealed: SealedAnswer, times: StageTimes | None) -> dict[str, Any]:
        """See ReplyForm."""
        return {
            **self._head(sealed.answer.head),
            "choices": [
                self._choice(choice.index, choice.text, choice.logprobs, choice.finish)
                for choice in sealed.answer.choices
            ],
            "usage": usage(sealed),
            "fedaigc": evidence(sealed, times),
        }

    def opening(self, head: AnswerHead) -> bytes:
        """See ReplyForm: this route's streams begin with their text."""
        self._same = self._head(head)
        return b""

    def deltas(self, deltas: Sequence[Delta]) -> bytes:
        """See ReplyForm."""
        return b"".join(
            self._chunk(self._choice(delta.index, delta.text, delta.logprobs, None)) for delta in deltas
        )

    def ending(self, sealed: SealedAnswer, times: StageTimes | None) -> bytes:
        """See ReplyForm."""
        choices = sealed.answer.choices
        events = b""
        for choice in choices:
            extra = {"fedaigc": evidence(sealed, times)} if choice is choices[-1] else {}
            events += self._chunk(self._choice(choice.index, "", (), choice.finish), **extra)
        if self._include_usage:
            events += event({**self._same, "choices": [], "usage": usage(sealed)})
        return events + DONE

    def _head(self, head: AnswerHead) -> dict[str, Any]:
        request = head.reservation.permit.request
        return {
            "id": request.id,
            "object": "text_completion",
            "created": self._created,
            "model": head.model,
        }

    def _choice(
        self, index: int, text: str, logprobs: Sequence[TokenLogprob], finish: str | None
    ) -> dict[str, Any]:
        top = self._request.sampling.logprobs
        told = None if top is None or not logprobs else completion_logprobs(logprobs, top)
        return {"text": text, "index": index, "logprobs": told, "finish_reason": finish}

    def _chunk(self, choice: dict[str, Any], **extra: Any) -> bytes:
        unused = {"usage": None} if self._include_usage else {}
        return event({**self._same, "choices": [choice], **unused, **extra})
