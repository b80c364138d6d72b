"""The device's local HTTP face: OpenAI's routes, feedback, receipts, health and metrics."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import fedaigc
from fedaigc.errors import FedaigcError
from fedaigc.identifiers import RequestId
from fedaigc_edge.evidence.outbox import Outbox
from fedaigc_edge.learn.feedback_reply import feedback_reply
from fedaigc_edge.serve.dialects import CHAT, COMPLETIONS
from fedaigc_edge.serve.embeddings_route import EmbeddingsRoute
from fedaigc_edge.serve.generation_route import GenerationRoute, log_defect
from fedaigc_edge.serve.http_body import read_body
from fedaigc_edge.serve.json_body import MAX_BODY_BYTES, read_json
from fedaigc_edge.serve.json_text import json_bytes
from fedaigc_edge.serve.local_access import LocalAccess
from fedaigc_edge.serve.openai_errors import INVALID, answer_of, error_answer
from fedaigc_edge.serve.plain_answer import send_error
from fedaigc_edge.serve.readiness import Readiness
from fedaigc_edge.serve.request import CallerGone
from fedaigc_edge.serve.serving_metrics import CONTENT_TYPE, ServingMetrics

Feedback = Callable[[dict[str, Any]], str]
"""Checks every field (half surrogate pairs too) and keeps one piece of feedback, returns its id; runs in a
worker thread; raises RequestInvalid."""


class HttpApi:
    """The routes. Give `app` to uvicorn on a loopback address.

    Args:
        readiness: gives the pipeline, or says why there is none.
        outbox: where receipts are looked up, also while no model is loaded.
        feedback: takes the body of POST /v1/feedback.
        metrics: the counters, shared with the pipeline.
        now: Unix seconds.
    """

    def __init__(
        self,
        readiness: Readiness,
        outbox: Outbox,
        feedback: Feedback,
        metrics: ServingMetrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._readiness = readiness
        self._outbox = outbox
        self._feedback = feedback
        self._metrics = metrics
        self._started = int(now())
        self._embed = EmbeddingsRoute(readiness, metrics)
        routes = [
            Route("/health", self._health),
            Route("/ready", self._ready),
            Route("/metrics", self._exposition),
            Route("/v1/models", self._models),
            Route("/v1/models/{model}", self._model),
            Route("/v1/receipts/{request_id}", self._receipt),
            Route("/v1/feedback", self._take_feedback, methods=["POST"]),
            Route("/v1/embeddings", self._embeddings, methods=["POST"]),
            Route("/v1/completions", GenerationRoute(COMPLETIONS, readiness, metrics, now), methods=["POST"]),
            Route("/v1/chat/completions", GenerationRoute(CHAT, readiness, metrics, now), methods=["POST"]),
        ]
        self.app: ASGIApp = LocalAccess(_OpenAIErrors(Router(routes, redirect_slashes=False)))

    async def _health(self, _: Request) -> Response:
        return _json({"status": "ok", "version": fedaigc.__version__})

    async def _ready(self, _: Request) -> Response:
        pipeline = self._readiness.pipeline()
        version = pipeline.policies.current.version
        return _json({"status": "ready", "model": pipeline.model.name, "policy_version": version})

    async def _models(self, _: Request) -> Response:
        return _json({"object": "list", "data": self._served()})

    async def _model(self, request: Request) -> Response:
        asked = request.path_params["model"]
        pipeline = self._readiness.pipeline()
        pipeline.model.pinned(asked, pipeline.policies.resident_versions)
        return _json(next(item for item in self._served() if item["id"] == asked))

    def _served(self) -> list[dict[str, Any]]:
        pipeline = self._readiness.pipeline()
        name, policies = pipeline.model.name, pipeline.policies
        same = {"object": "model", "created": self._started, "owned_by": "fedaigc"}
        in_force = policies.current.version
        served: list[dict[str, Any]] = [{"id": name, **same, "policy_version": in_force}]
        for version in sorted(policies.resident_versions):
            served.append(
                {"id": pipeline.model.versioned(version), **same, "policy_version": version, "parent": name}
            )
        return served

    async def _embeddings(self, request: Request) -> Response:
        return await self._embed.answer(request, RequestId(f"embd-{secrets.token_hex(12)}"))

    async def _take_feedback(self, request: Request) -> Response:
        body = read_json(await read_body(request.receive, MAX_BODY_BYTES), whole_text=False)
        return _json(feedback_reply(await asyncio.to_thread(self._feedback, body)))

    async def _receipt(self, request: Request) -> Response:
        known = await asyncio.to_thread(self._outbox.receipt_of, request.path_params["request_id"])
        if known is None:
            return _error(404, "not_found", "No answer of this device has this request id.")
        if known.text is None:
            pending = {"object": "fedaigc.receipt", "status": "pending", "fingerprint_seq": known.seq}
            return _json(pending, 202)
        return Response(known.text, media_type="text/plain; charset=utf-8")

    async def _exposition(self, _: Request) -> Response:
        counts = await asyncio.to_thread(self._outbox.counts)
        stale = int(self._readiness.gate_problem)
        gauges: dict[str, tuple[str, float]] = {
            "fedaigc_gate_rules_refused": ("1 while a newer rule file is refused for an error.", stale),
            "fedaigc_outbox_pending": ("Sealed answers that the ledger has not confirmed.", counts.pending),
            "fedaigc_outputs_sealed": ("Answers sealed by this node, ever.", counts.sealed),
        }
        for name, value in self._readiness.figures().items():
            gauges[f"fedaigc_engine_{name}"] = ("A figure of the engine.", value)
        return Response(self._metrics.text(gauges), media_type=CONTENT_TYPE)


class _OpenAIErrors:
    """Turn every error of the routes into OpenAI's form; log one that is not ours without its message."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            # Naming an app makes the router raise HTTPException, for us to put into OpenAI's form.
            await self._app({**scope, "app": self}, receive, noting)
        except CallerGone:
            return
        except HTTPException as error:
            name = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
            message = "This device has no such route." if error.status_code == 404 else error.detail
            answer = answer_of(error.status_code, INVALID, name, message)
            await send_error(send, answer, error.headers)
        except Exception as error:
            if not isinstance(error, FedaigcError):
                log_defect(error)
            if not started:
                await send_error(send, error_answer(error))


def _json(value: Any, status: int = 200) -> Response:
    return Response(json_bytes(value), status, media_type="application/json")


def _error(status: int, code: str, message: str) -> Response:
    return _json(answer_of(status, INVALID, code, message).body, status)
