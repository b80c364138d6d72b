"""A route that generates: read the call, send it through the pipeline, end it with a sealed answer."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from fedaigc.errors import FedaigcError
from fedaigc_edge.serve.api_call import ApiCall, Dialect
from fedaigc_edge.serve.callers import HttpCaller, StreamedCaller, WholeCaller
from fedaigc_edge.serve.http_body import left, preferred_language, read_body
from fedaigc_edge.serve.json_body import MAX_BODY_BYTES
from fedaigc_edge.serve.openai_errors import error_answer
from fedaigc_edge.serve.pipeline import Pipeline
from fedaigc_edge.serve.plain_answer import REQUEST_ID_HEADER, send_error
from fedaigc_edge.serve.readiness import Readiness
from fedaigc_edge.serve.request import CallerGone
from fedaigc_edge.serve.sealed_answer import SealedAnswer
from fedaigc_edge.serve.serving_metrics import ServingMetrics
from fedaigc_edge.serve.stage_clock import StageClock

log = logging.getLogger(__name__)

OFF_LOOP_BYTES = 65_536
"""Larger bodies are parsed in a thread."""
TIMINGS_HEADER = b"x-fedaigc-timings"
"""A caller that sends it with the value 1 gets its request's stage times."""


class GenerationRoute:
    """An ASGI endpoint.

    Args:
        dialect: OpenAI's chat completions, or its completions.
        readiness: gives the pipeline, or says why there is none.
        metrics: counts calls that never reach the pipeline.
        now: Unix seconds, for `created`.
    """

    def __init__(
        self,
        dialect: Dialect,
        readiness: Readiness,
        metrics: ServingMetrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._dialect = dialect
        self._readiness = readiness
        self._metrics = metrics
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        request_id = self._dialect.new_id()
        try:
            pipeline = self._readiness.pipeline()
            body = await read_body(receive, MAX_BODY_BYTES)
            clock = StageClock()
            arguments = (body, request_id, preferred_language(scope))
            if len(body) > OFF_LOOP_BYTES:
                call = await asyncio.to_thread(self._dialect.read, *arguments)
            else:
                call = self._dialect.read(*arguments)
        except CallerGone:
            return
        except FedaigcError as error:
            self._metrics.count_failed(error)
            await send_error(send, error_answer(error), {REQUEST_ID_HEADER: request_id})
            return
        make = StreamedCaller if call.stream else WholeCaller
        caller = make(send, request_id, self._dialect.form(call, int(self._now())))
        timed = any(name == TIMINGS_HEADER and value == b"1" for name, value in scope["headers"])
        watching = asyncio.create_task(_watch(receive, caller.gone))
        try:
            await self._answer(pipeline, call, caller, clock, timed)
        finally:
            watching.cancel()

    async def _answer(
        self, pipeline: Pipeline, call: ApiCall, caller: HttpCaller, clock: StageClock, timed: bool
    ) -> None:
        work = asyncio.create_task(pipeline.serve(call.request, caller, clock))
        work.add_done_callback(_note_error)
        try:
            sealed = await asyncio.shield(work)
            await caller.finish(sealed, clock.end() if timed else None)
        except asyncio.CancelledError:
            # The server is stopping: end the generation within one token, but let what was handed over be
            # sealed.
            caller.gone.set()
            await asyncio.wait({work})
            raise
        except CallerGone:
            return
        except Exception as error:
            if not isinstance(error, FedaigcError):
                log_defect(error)
            await caller.fail(error_answer(error, self._dialect.judged))


async def _watch(receive: Receive, gone: asyncio.Event) -> None:
    await left(receive)
    gone.set()


def _note_error(work: asyncio.Task[SealedAnswer]) -> None:
    # An error that nobody asks for, as at a stop, is logged by asyncio with its message.
    if not work.cancelled():
        work.exception()


def log_defect(error: Exception) -> None:
    """Log where an unexpected error came from, without its message: that could quote what a caller wrote."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-4:]]
    log.error("defect type=%s at=%s", type(error).__name__, ",".join(places))
