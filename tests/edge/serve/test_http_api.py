"""Every route but chat, and what holds for all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import openai
import pytest
from starlette.routing import Route, Router

from fedaigc.errors import RequestInvalid, StorageError, Unavailable
from fedaigc_edge.evidence.delivery import Delivery
from fedaigc_edge.learn.feedback_form import read_feedback
from fedaigc_edge.serve.generation_route import GenerationRoute
from fedaigc_edge.serve.http_api import HttpApi
from fedaigc_edge.serve.readiness import Readiness
from tests.edge.evidence.small_ledger import Keys, SmallLedger
from tests.edge.serve.scripted import Parts, RunningApi

MESSAGES = [{"role": "user", "content": "say hello"}]


def test_health_is_alive_even_when_nothing_can_be_served(api: RunningApi) -> None:
    api.readiness.close(Unavailable("The model is loading"))
    assert httpx.get(api.url + "/health").json()["status"] == "ok"
    assert httpx.get(api.url + "/ready").status_code == 503
    assert httpx.get(api.url + "/v1/models").status_code == 503


def test_ready_names_model_and_policy(api: RunningApi) -> None:
    answer = httpx.get(api.url + "/ready")
    assert answer.json() == {"status": "ready", "model": "tiny", "policy_version": 3}


def test_openais_program_lists_the_base_and_the_version_in_force(caller: openai.OpenAI) -> None:
    assert [model.id for model in caller.models.list()] == ["tiny", "tiny@3"]
    assert caller.models.retrieve("tiny@3").owned_by == "fedaigc"
    with pytest.raises(openai.NotFoundError):
        caller.models.retrieve("gpt-4o")


@pytest.mark.parametrize(
    "body",
    [
        {"request_id": "r", "rating": "up"},
        {"messages": MESSAGES, "chosen": "a", "rejected": "b"},
        {"request_id": "r", "edited": "better"},
    ],
)
def test_feedback_is_passed_on_and_its_id_returned(api: RunningApi, body: dict[str, object]) -> None:
    answer = httpx.post(api.url + "/v1/feedback", json=body)
    assert (answer.status_code, answer.json()) == (
        200,
        {"object": "fedaigc.feedback", "id": "f-1", "pair": True},
    )
    assert api.feedback == [body]


@pytest.mark.parametrize(
    ("error", "status"),
    [(RequestInvalid("no such request", field="request_id"), 400), (StorageError("x"), 500)],
)
def test_feedback_that_cannot_be_kept_is_an_error_in_openais_form(
    parts: Parts, error: Exception, status: int
) -> None:
    def refuse(body: dict[str, object]) -> str:
        raise error

    with RunningApi(parts, refuse) as api:
        answer = httpx.post(api.url + "/v1/feedback", json={"rating": "up"})
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"request_id": "r", "edited": "\\ud800"}', "edited"),
        ('{"request_id": "\\ud800", "rating": "up"}', "request_id"),
        ('{"prompt": "\\udfff", "chosen": "a", "rejected": "b"}', "prompt"),
        ('{"request_id": "r", "rating": "up", "\\ud800": 1}', "?"),
    ],
)
def test_half_a_surrogate_pair_in_feedback_is_refused_by_its_fields_name(
    parts: Parts, text: str, field: str
) -> None:
    with RunningApi(parts, lambda body: str(read_feedback(body))) as api:
        answer = httpx.post(api.url + "/v1/feedback", content=text.encode("ascii"))
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)


def test_a_lone_thumb_is_told_what_is_missing(parts: Parts) -> None:
    with RunningApi(parts, lambda body: "thumb-7") as api:
        answer = httpx.post(api.url + "/v1/feedback", json={"request_id": "r", "rating": "up"}).json()
    assert (answer["id"], answer["pair"]) == ("thumb-7", False)
    assert "opposite thumb" in answer["missing"]


@pytest.mark.parametrize("data", [b"", b"[1]", b"{", b"\xff"])
def test_feedback_that_is_no_object_is_refused(api: RunningApi, data: bytes) -> None:
    assert httpx.post(api.url + "/v1/feedback", content=data).status_code == 400
    assert api.feedback == []


def test_a_receipt_is_unknown_then_pending_then_there(api: RunningApi, parts: Parts) -> None:
    assert httpx.get(api.url + "/v1/receipts/chatcmpl-none").status_code == 404
    body = {"model": "tiny", "messages": MESSAGES}
    request_id = httpx.post(api.url + "/v1/chat/completions", json=body).json()["id"]
    pending = httpx.get(f"{api.url}/v1/receipts/{request_id}")
    assert (pending.status_code, pending.json()["status"]) == (202, "pending")
    ledger = SmallLedger()
    keys = Keys(parts.outbox.pending(1, 1)[0].month)
    asyncio.run(Delivery(parts.outbox, ledger, keys, ledger.signer.vkey()).deliver_batch())
    receipt = httpx.get(f"{api.url}/v1/receipts/{request_id}")
    assert (receipt.status_code, receipt.text) == (200, ledger.receipt(0))


def test_metrics_count_requests_denials_tokens_and_the_outbox(api: RunningApi) -> None:
    chat = api.url + "/v1/chat/completions"
    httpx.post(chat, json={"model": "tiny", "messages": MESSAGES})
    httpx.post(chat, json={"model": "tiny", "messages": [{"role": "user", "content": "禁果"}]})
    httpx.post(chat, content=b"{")
    lines = httpx.get(api.url + "/metrics").text.splitlines()
    for line in (
        'fedaigc_requests_total{outcome="ok"} 1',
        'fedaigc_requests_total{outcome="denied"} 1',
        'fedaigc_requests_total{outcome="invalid"} 1',
        'fedaigc_denials_total{rule="no-apples"} 1',
        'fedaigc_tokens_total{kind="completion"} 4',
        "fedaigc_outbox_pending 1",
        'fedaigc_stage_seconds_count{stage="outbox"} 1',
        "fedaigc_engine_slots 2",
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/v1/edits", 404),
        ("GET", "/v1/chat/completions", 405),
        ("GET", "/v1/chat/completions/", 404),
        ("POST", "/v1/models", 405),
        ("GET", "/v1//models", 404),
        ("GET", "/v1/receipts/a/b", 404),
    ],
)
def test_what_is_not_a_route_is_refused_in_openais_form(
    api: RunningApi, method: str, path: str, status: int
) -> None:
    answer = httpx.request(method, api.url + path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("path", ["/health", "/metrics", "/v1/models", "/v1/receipts/x", "/ready"])
@pytest.mark.parametrize("header", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
def test_no_route_answers_a_web_page(api: RunningApi, path: str, header: dict[str, str]) -> None:
    assert httpx.get(api.url + path, headers=header).status_code == 403
    assert httpx.post(api.url + "/v1/feedback", json={}, headers=header).status_code == 403
    assert api.feedback == []


def test_what_generates_goes_through_the_pipelines_route(parts: Parts, tmp_path: Path) -> None:
    api = HttpApi(Readiness(), parts.outbox, lambda body: "", parts.metrics)
    router = api.app._app._app  # type: ignore[attr-defined]
    assert isinstance(router, Router)
    posts = {
        route.path: route
        for route in router.routes
        if isinstance(route, Route) and "POST" in (route.methods or ())
    }
    generating = {"/v1/chat/completions", "/v1/completions"}
    assert set(posts) == {"/v1/feedback", "/v1/embeddings", *generating}
    assert all(isinstance(posts[path].endpoint, GenerationRoute) for path in generating)
