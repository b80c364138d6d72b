"""The two ways an answer reaches its caller: as server-sent events while it comes, or whole at the end."""

from __future__ import annotations

import asyncio
from typing import Protocol

from starlette.types import Send

from fedaigc_edge.serve.answer import AnswerHead, Caller
from fedaigc_edge.serve.openai_errors import ErrorAnswer
from fedaigc_edge.serve.openai_reply import ChunkForm, completion, event
from fedaigc_edge.serve.openai_request import ChatCall
from fedaigc_edge.serve.plain_answer import send_error, send_json
from fedaigc_edge.serve.sealed_answer import SealedAnswer

REQUEST_ID_HEADER = "x-request-id"
_STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


class ChatCaller(Caller, Protocol):
    """A Caller of the pipeline, and how its answer ends. `finish` takes nothing but a SealedAnswer."""

    async def finish(self, sealed: SealedAnswer) -> None:
        """Send what is left of the answer, now that its evidence is on disk."""
        ...

    async def fail(self, error: ErrorAnswer) -> None:
        """Send an error instead."""
        ...


class WholeCaller:
    """Gets one JSON object after the seal."""

    streams = False

    def __init__(self, send: Send, call: ChatCall, created: int) -> None:
        self.gone = asyncio.Event()
        self._send = send
        self._created = created
        self._headers = {REQUEST_ID_HEADER: call.request.id}

    async def deliver(self, head: AnswerHead, text: str) -> None:
        """Nothing: this caller waits for the whole."""

    async def finish(self, sealed: SealedAnswer) -> None:
        """See ChatCaller."""
        await send_json(self._send, completion(sealed, self._created), headers=self._headers)

    async def fail(self, error: ErrorAnswer) -> None:
        """See ChatCaller."""
        await send_error(self._send, error, self._headers)


class StreamedCaller:
    """Gets events. The status is sent with the first text, so that what fails before it has a true status."""

    streams = True

    def __init__(self, send: Send, call: ChatCall, created: int) -> None:
        self.gone = asyncio.Event()
        self._send = send
        self._created = created
        self._include_usage = call.include_usage
        self._request_id = call.request.id
        self._form: ChunkForm | None = None

    async def deliver(self, head: AnswerHead, text: str) -> None:
        """Send one chunk; the first brings status, headers and the role."""
        form, opening = await self._open(head)
        await self._body(opening + form.text(text), more=True)

    async def finish(self, sealed: SealedAnswer) -> None:
        """See ChatCaller."""
        if not self.gone.is_set():
            form, opening = await self._open(sealed.answer.head)
            await self._body(opening + form.last(sealed), more=False)

    async def fail(self, error: ErrorAnswer) -> None:
        """A status if none was sent yet, else an error event and no end mark: the answer is not complete."""
        if self._form is None:
            await send_error(self._send, error, {REQUEST_ID_HEADER: self._request_id})
        elif not self.gone.is_set():
            await self._body(event(error.body), more=False)

    async def _open(self, head: AnswerHead) -> tuple[ChunkForm, bytes]:
        if self._form is not None:
            return self._form, b""
        self._form = ChunkForm(head, self._created, self._include_usage)
        headers = {**_STREAM_HEADERS, REQUEST_ID_HEADER: self._request_id}
        encoded = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": encoded})
        return self._form, self._form.first()

    async def _body(self, body: bytes, more: bool) -> None:
        try:
            await self._send({"type": "http.response.body", "body": body, "more_body": more})
        except OSError:
            # Some servers say so this way that the connection is gone.
            self.gone.set()
