"""One call of a route that generates: what is asked, and what its answer looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fedaigc.identifiers import RequestId
from fedaigc_edge.serve.answer import AnswerHead
from fedaigc_edge.serve.choice_text import Delta
from fedaigc_edge.serve.request import GenerationRequest, Language
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from fedaigc_edge.serve.stage_clock import StageTimes


@dataclass(frozen=True)
class ApiCall:
    """A checked request; `include_usage` is for streams only."""

    request: GenerationRequest
    stream: bool
    include_usage: bool


class ReplyForm(Protocol):
    """The form of one request's answer. Ends take a SealedAnswer, so none that was not recorded can end."""

    def whole(self, sealed: SealedAnswer, times: StageTimes | None) -> dict[str, Any]:
        """The body of a whole answer."""
        ...

    def opening(self, head: AnswerHead) -> bytes:
        """The first events of a stream; called once, before the other two."""
        ...

    def deltas(self, deltas: Sequence[Delta]) -> bytes:
        """Events for what came at one moment."""
        ...

    def ending(self, sealed: SealedAnswer, times: StageTimes | None) -> bytes:
        """Why each choice ended, the usage if it was asked for, and the end mark."""
        ...


@dataclass(frozen=True)
class Dialect:
    """How one route reads calls and writes answers.

    Args:
        new_id: makes a request's name.
        read: checks a body; raises RequestInvalid naming the first field that cannot be honoured.
        form: the form of a call's answer, given when it was created, Unix seconds.
        judged: the field that holds what the gate judges.
    """

    new_id: Callable[[], RequestId]
    read: Callable[[bytes, RequestId, Language], ApiCall]
    form: Callable[[ApiCall, int], ReplyForm]
    judged: str
