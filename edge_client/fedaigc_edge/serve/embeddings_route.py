"""POST /v1/embeddings: texts to vectors, through gate and budget like everything else."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from fedaigc.errors import FedaigcError
from fedaigc.identifiers import RequestId
from fedaigc_edge.serve.embedding import Embedding
from fedaigc_edge.serve.embeddings_request import EmbeddingCall, read_embedding_call
from fedaigc_edge.serve.generation_route import OFF_LOOP_BYTES, log_defect
from fedaigc_edge.serve.http_body import left, preferred_language, read_body
from fedaigc_edge.serve.json_body import MAX_BODY_BYTES
from fedaigc_edge.serve.json_text import json_bytes
from fedaigc_edge.serve.openai_errors import error_answer
from fedaigc_edge.serve.openai_fields import refuse
from fedaigc_edge.serve.pipeline import Pipeline
from fedaigc_edge.serve.plain_answer import REQUEST_ID_HEADER
from fedaigc_edge.serve.readiness import Readiness
from fedaigc_edge.serve.request import CallerGone
from fedaigc_edge.serve.serving_metrics import ServingMetrics


class EmbeddingsRoute:
    """The endpoint.

    Args:
        readiness: gives the pipeline, or says why there is none.
        metrics: counts calls that never reach the pipeline.
    """

    def __init__(self, readiness: Readiness, metrics: ServingMetrics) -> None:
        self._readiness = readiness
        self._metrics = metrics

    async def answer(self, request: Request, request_id: RequestId) -> Response:
        """Answer one call."""
        headers: dict[str, str] = {REQUEST_ID_HEADER: request_id}
        try:
            status, body = 200, await self._vectors(request, request_id)
        except CallerGone:
            raise
        except Exception as error:
            if not isinstance(error, FedaigcError):
                log_defect(error)
            refusal = error_answer(error, judged="input")
            status, body = refusal.status, json_bytes(refusal.body)
            headers |= refusal.headers
        return Response(body, status, headers, "application/json")

    async def _vectors(self, request: Request, request_id: RequestId) -> bytes:
        try:
            pipeline = self._readiness.pipeline()
            data = await read_body(request.receive, MAX_BODY_BYTES)
            arguments = (data, request_id, preferred_language(request.scope))
            if len(data) > OFF_LOOP_BYTES:
                call = await asyncio.to_thread(read_embedding_call, *arguments)
            else:
                call = read_embedding_call(*arguments)
        except FedaigcError as error:
            self._metrics.count_failed(error)
            raise
        made = await self._made(pipeline, call, request.receive)
        return await asyncio.to_thread(_body, call, made)

    async def _made(self, pipeline: Pipeline, call: EmbeddingCall, receive: Receive) -> Embedding:
        """Raises CallerGone, and reads no further, when the caller leaves first."""
        making = asyncio.create_task(pipeline.embed(call.request))
        leaving = asyncio.create_task(left(receive))
        try:
            await asyncio.wait({making, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if making.done():
                return making.result()
            gone = CallerGone("The caller left before its vectors were made", "", "ask again")
            self._metrics.count_failed(gone)
            raise gone
        finally:
            leaving.cancel()
            making.cancel()


def _body(call: EmbeddingCall, made: Embedding) -> bytes:
    size = made.vectors.shape[1]
    if call.dimensions not in (None, size):
        refuse("dimensions", f"this model's vectors have {size}", "leave it out")
    return json_bytes(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": _vector(row, call.base64)}
                for index, row in enumerate(made.vectors)
            ],
            "model": made.model,
            "usage": {"prompt_tokens": made.tokens, "total_tokens": made.tokens},
        }
    )


def _vector(row: Any, as_base64: bool) -> Any:
    # Little-endian float32, which is what OpenAI's programs read.
    small = np.asarray(row, dtype="<f4")
    return base64.b64encode(small.tobytes()).decode("ascii") if as_base64 else small.tolist()
