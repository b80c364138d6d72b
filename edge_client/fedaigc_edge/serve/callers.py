"""The two ways an answer reaches its caller: as server-sent events while it comes, or whole at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from starlette.types import Send

from fedaigc.identifiers import RequestId
from fedaigc_edge.serve.answer import AnswerHead, Caller
from fedaigc_edge.serve.api_call import ReplyForm
from fedaigc_edge.serve.choice_text import Delta
from fedaigc_edge.serve.json_text import event
from fedaigc_edge.serve.openai_errors import ErrorAnswer
from fedaigc_edge.serve.plain_answer import REQUEST_ID_HEADER, send_error, send_json
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from fedaigc_edge.serve.stage_clock import StageTimes

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class HttpCaller(Caller, Protocol):
    """A Caller of the pipeline, and how its answer ends. `finish` takes nothing but a SealedAnswer."""

    async def finish(self, sealed: SealedAnswer, times: StageTimes | None) -> None:
        """Send what is left of the answer, now that its evidence is on disk."""
        ...

    async def fail(self, error: ErrorAnswer) -> None:
        """Send an error instead."""
        ...


class WholeCaller:
    """Gets one JSON object after the seal."""

    streams = False

    def __init__(self, send: Send, request_id: RequestId, form: ReplyForm) -> None:
        self.gone = asyncio.Event()
        self._send = send
        self._form = form
        self._headers = {REQUEST_ID_HEADER: request_id}

    async def deliver(self, head: AnswerHead, deltas: Sequence[Delta]) -> None:
        """Nothing: this caller waits for the whole."""

    async def finish(self, sealed: SealedAnswer, times: StageTimes | None) -> None:
        """See HttpCaller."""
        await send_json(self._send, self._form.whole(sealed, times), headers=self._headers)

    async def fail(self, error: ErrorAnswer) -> None:
        """See HttpCaller."""
        await send_error(self._send, error, self._headers)


class StreamedCaller:
    """Gets events. The status is sent with the first text, so that what fails before it has a true status."""

    streams = True

    def __init__(self, send: Send, request_id: RequestId, form: ReplyForm) -> None:
        self.gone = asyncio.Event()
        self._send = send
        self._request_id = request_id
        self._form = form
        self._open = False

    async def deliver(self, head: AnswerHead, deltas: Sequence[Delta]) -> None:
        """Send what came at one moment at once; the first brings status, headers and roles."""
        opening = await self._opening(head)
        await self._body(opening + self._form.deltas(deltas), more=True)

    async def finish(self, sealed: SealedAnswer, times: StageTimes | None) -> None:
        """See HttpCaller."""
        if not self.gone.is_set():
            opening = await self._opening(sealed.answer.head)
            await self._body(opening + self._form.ending(sealed, times), more=False)

    async def fail(self, error: ErrorAnswer) -> None:
        """A status if none was sent yet, else an error event and no end mark: the answer is not complete."""
        if not self._open:
            await send_error(self._send, error, {REQUEST_ID_HEADER: self._request_id})
        elif not self.gone.is_set():
            await self._body(event(error.body), more=False)

    async def _opening(self, head: AnswerHead) -> bytes:
        if self._open:
            return b""
        self._open = True
        headers = [*_STREAM_HEADERS, (REQUEST_ID_HEADER.encode("ascii"), self._request_id.encode("ascii"))]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        return self._form.opening(head)

    async def _body(self, body: bytes, more: bool) -> None:
        try:
            await self._send({"type": "http.response.body", "body": body, "more_body": more})
        except OSError:
            # Some servers say so this way that the connection is gone.
            self.gone.set()
