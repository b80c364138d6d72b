"""POST /v1/chat/completions: read the call, send it through the pipeline, end it with a sealed answer."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from fedaigc.errors import FedaigcError
from fedaigc.identifiers import new_request_id
from fedaigc_edge.serve.chat_callers import REQUEST_ID_HEADER, ChatCaller, StreamedCaller, WholeCaller
from fedaigc_edge.serve.generation_slots import CallerGone
from fedaigc_edge.serve.http_body import preferred_language, read_body
from fedaigc_edge.serve.openai_errors import error_answer
from fedaigc_edge.serve.openai_request import MAX_BODY_BYTES, ChatCall, read_chat_call
from fedaigc_edge.serve.pipeline import Pipeline
from fedaigc_edge.serve.plain_answer import send_error
from fedaigc_edge.serve.readiness import Readiness
from fedaigc_edge.serve.serving_metrics import ServingMetrics

log = logging.getLogger(__name__)

OFF_LOOP_BYTES = 65_536
"""Larger bodies are parsed in a thread."""


class ChatRoute:
    """The ASGI endpoint of chat completions.

    Args:
        readiness: gives the pipeline, or says why there is none.
        metrics: counts calls that never reach the pipeline.
        now: Unix seconds, for `created`.
    """

    def __init__(
        self, readiness: Readiness, metrics: ServingMetrics, now: Callable[[], float] = time.time
    ) -> None:
        self._readiness = readiness
        self._metrics = metrics
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        request_id = new_request_id()
        try:
            pipeline = self._readiness.pipeline()
            body = await read_body(receive, MAX_BODY_BYTES)
            arguments = (body, request_id, preferred_language(scope))
            if len(body) > OFF_LOOP_BYTES:
                call = await asyncio.to_thread(read_chat_call, *arguments)
            else:
                call = read_chat_call(*arguments)
        except CallerGone:
            return
        except FedaigcError as error:
            self._metrics.count_failed(error)
            await send_error(send, error_answer(error), {REQUEST_ID_HEADER: request_id})
            return
        make = StreamedCaller if call.stream else WholeCaller
        await _answer(pipeline, call, make(send, call, int(self._now())), receive)


async def _answer(pipeline: Pipeline, call: ChatCall, caller: ChatCaller, receive: Receive) -> None:
    watching = asyncio.create_task(_watch(receive, caller.gone))
    work = asyncio.create_task(pipeline.serve(call.request, caller))
    try:
        sealed = await asyncio.shield(work)
        await caller.finish(sealed)
    except asyncio.CancelledError:
        # The server is stopping: end the generation within one token, but let what was handed over be sealed.
        caller.gone.set()
        await asyncio.wait({work})
        raise
    except CallerGone:
        return
    except Exception as error:
        if not isinstance(error, FedaigcError):
            log_defect(error)
        await caller.fail(error_answer(error))
    finally:
        watching.cancel()


async def _watch(receive: Receive, gone: asyncio.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


def log_defect(error: Exception) -> None:
    """Log where an unexpected error came from, without its message: that could quote what a caller wrote."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-4:]]
    log.error("defect type=%s at=%s", type(error).__name__, ",".join(places))
