"""A chat completion in OpenAI's byte-exact form: one object, or chunks."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from fedaigc_edge.serve.answer import AnswerHead, Choice
from fedaigc_edge.serve.choice_text import Delta, TokenLogprob
from fedaigc_edge.serve.json_text import DONE, event, json_bytes
from fedaigc_edge.serve.logprob_reply import chat_logprobs
from fedaigc_edge.serve.openai_reply import evidence, usage
from fedaigc_edge.serve.request import GenerationRequest
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from fedaigc_edge.serve.stage_clock import StageTimes
from fedaigc_edge.serve.tool_call_text import Arguments, CallBegun, Part, Said, ToolCallText, read_tool_call

_PLACE = "\ue0f1"
"""Where a chunk's text goes; no name of a model or request holds this character of a private-use area."""


def new_call_id() -> str:
    """A fresh name for a tool call."""
    return f"call_{secrets.token_hex(12)}"


class ChatForm:
    """See ReplyForm. A tool call has the same id in all of its chunks.

    Args:
        created: Unix seconds.
        include_usage: whether a stream ends with the usage.
    """

    def __init__(self, request: GenerationRequest, created: int, include_usage: bool) -> None:
        self._request = request
        self._created = created
        self._include_usage = include_usage
        self._same: dict[str, Any] = {}
        self._around: list[tuple[bytes, bytes]] = []
        use = request.tools
        self._readers = [ToolCallText(use.must_call) for _ in range(request.n)] if use is not None else []

    def whole(self, sealed: SealedAnswer, times: StageTimes | None) -> dict[str, Any]:
        """See ReplyForm."""
        return {
            **self._head(sealed.answer.head, "chat.completion"),
            "choices": [self._whole_choice(choice) for choice in sealed.answer.choices],
            "usage": usage(sealed),
            "fedaigc": evidence(sealed, times),
        }

    def opening(self, head: AnswerHead) -> bytes:
        """See ReplyForm: the chunks that name the role."""
        self._same = self._head(head, "chat.completion.chunk")
        self._around = [self._around_text(index) for index in range(self._request.n)]
        forced = self._request.tools is not None and self._request.tools.must_call
        delta = {"role": "assistant", "content": None if forced else "", "refusal": None}
        return b"".join(self._chunk(index, delta) for index in range(self._request.n))

    def deltas(self, deltas: Sequence[Delta]) -> bytes:
        """See ReplyForm."""
        return b"".join(self._delta(delta) for delta in deltas)

    def ending(self, sealed: SealedAnswer, times: StageTimes | None) -> bytes:
        """See ReplyForm."""
        events = b""
        choices = sealed.answer.choices
        for choice in choices:
            called = False
            if self._readers:
                reader = self._readers[choice.index]
                events += self._parts(choice.index, reader.end(), None)
                called = reader.called
            last = choice is choices[-1]
            extra = {"fedaigc": evidence(sealed, times)} if last else {}
            events += self._chunk(choice.index, {}, _finish(choice, called), **extra)
        if self._include_usage:
            events += event({**self._same, "choices": [], "usage": usage(sealed)})
        return events + DONE

    def _head(self, head: AnswerHead, kind: str) -> dict[str, Any]:
        request = head.reservation.permit.request
        return {"id": request.id, "object": kind, "created": self._created, "model": head.model}

    def _whole_choice(self, choice: Choice) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": None}
        called = False
        if self._request.tools is not None:
            parts = read_tool_call(choice.text, self._request.tools.must_call)
            called = any(isinstance(part, CallBegun) for part in parts)
            said = "".join(part.text for part in parts if isinstance(part, Said))
            message["content"] = (said or None) if called else said
            if called:
                message["tool_calls"] = [_whole_call(parts)]
        return {
            "index": choice.index,
            "message": message,
            "logprobs": self._logprobs(choice.logprobs),
            "finish_reason": _finish(choice, called),
        }

    def _delta(self, delta: Delta) -> bytes:
        logprobs = self._logprobs(delta.logprobs) if delta.logprobs else None
        if not self._readers and logprobs is None:
            before, after = self._around[delta.index]
            return before + json_bytes(delta.text) + after
        if not self._readers:
            return self._chunk(delta.index, {"content": delta.text}, logprobs=logprobs)
        return self._parts(delta.index, self._readers[delta.index].feed(delta.text), logprobs)

    def _parts(self, index: int, parts: Iterable[Part], logprobs: dict[str, Any] | None) -> bytes:
        events = b""
        for part in parts:
            if isinstance(part, Said):
                delta: dict[str, Any] = {"content": part.text}
            elif isinstance(part, CallBegun):
                delta = {"tool_calls": [{"index": 0, **_call(part.name, "")}]}
            else:
                delta = {"tool_calls": [{"index": 0, "function": {"arguments": part.text}}]}
            events += self._chunk(index, delta, logprobs=logprobs)
            logprobs = None
        if logprobs is not None:
            events += self._chunk(index, {}, logprobs=logprobs)
        return events

    def _around_text(self, index: int) -> tuple[bytes, bytes]:
        # Most chunks differ in their text alone, and there is one for each token.
        chunk = self._chunk(index, {"content": _PLACE})
        before, _, after = chunk.partition(json_bytes(_PLACE))
        return before, after

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        finish: str | None = None,
        logprobs: dict[str, Any] | None = None,
        **extra: Any,
    ) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        unused = {"usage": None} if self._include_usage else {}
        return event({**self._same, "choices": [choice], **unused, **extra})

    def _logprobs(self, tokens: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        top = self._request.sampling.logprobs
        return None if top is None else chat_logprobs(tokens, top)


def _finish(choice: Choice, called: bool) -> str:
    return "tool_calls" if called and choice.finish == "stop" else choice.finish


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": new_call_id(), "type": "function", "function": {"name": name, "arguments": arguments}}


def _whole_call(parts: Sequence[Part]) -> dict[str, Any]:
    name = next(part.name for part in parts if isinstance(part, CallBegun))
    return _call(name, "".join(part.text for part in parts if isinstance(part, Arguments)))
