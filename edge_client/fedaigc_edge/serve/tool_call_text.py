"""Read a tool call out of an answer's text while it grows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedaigc_edge.serve.chat_prompt import CALL_OPEN
from fedaigc_edge.serve.stop_text import overlap

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\{)')


@dataclass(frozen=True)
class Said:
    """Text for the caller to read."""

    text: str = field(repr=False)


@dataclass(frozen=True)
class CallBegun:
    """A call of the tool `name` begins."""

    name: str = field(repr=False)


@dataclass(frozen=True)
class Arguments:
    """The next piece of the call's arguments, JSON as the model writes it."""

    text: str = field(repr=False)


Part = Said | CallBegun | Arguments


class ToolCallText:
    """Feed an answer's text in order; get back what it means.

    A call is `{"name": ..., "arguments": {...}}`; with `must_call` the answer is that alone, else it may
    come after any text and behind `<tool_call>`. Text in which a call was begun and cut before its arguments
    is given back as it stands.
    """

    def __init__(self, must_call: bool) -> None:
        self.called = False
        """Whether a call has begun."""
        self._must_call = must_call
        self._in_call = must_call
        self._held = ""
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._ended = False

    def feed(self, text: str) -> list[Part]:
        """What is certain now."""
        parts: list[Part] = []
        self._held += text
        if not self._in_call:
            parts += self._before_call()
        if self._in_call and not self.called:
            parts += self._begin()
        if self.called:
            parts += self._arguments()
        return parts

    def end(self) -> list[Part]:
        """What was held back, once no more text comes."""
        held, self._held = self._held, ""
        if self.called:
            return []
        text = CALL_OPEN + held if self._in_call and not self._must_call else held
        return [Said(text)] if text else []

    def _before_call(self) -> list[Part]:
        at = self._held.find(CALL_OPEN)
        if at >= 0:
            said, self._held = self._held[:at], self._held[at + len(CALL_OPEN) :]
            self._in_call = True
        else:
            keep = overlap(self._held, CALL_OPEN)
            said, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return [Said(said)] if said else []

    def _begin(self) -> list[Part]:
        head = _HEAD.match(self._held)
        if head is None:
            return []
        self._held = self._held[head.end() :]
        self.called = True
        return [CallBegun(json.loads(head[1], strict=False))]

    def _arguments(self) -> list[Part]:
        if self._ended:
            self._held = ""
            return []
        end = len(self._held)
        for place, character in enumerate(self._held):
            self._step(character)
            if self._ended:
                end = place + 1
                break
        text, self._held = self._held[:end], ""
        return [Arguments(text)] if text else []

    def _step(self, character: str) -> None:
        if self._in_string:
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == '"':
                self._in_string = False
        elif character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            self._ended = self._depth == 0


def read_tool_call(text: str, must_call: bool) -> Sequence[Part]:
    """What a whole answer means; `Arguments` come in one piece."""
    reader = ToolCallText(must_call)
    return [*reader.feed(text), *reader.end()]
