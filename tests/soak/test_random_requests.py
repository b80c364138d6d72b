"""Ten thousand random requests over HTTP: lengths, cancels, bad fields; the device stays as it was."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.exposition import gauges
from tests.fleet import Edge
from tests.soak.memory_slope import growth_mb, rss_mb
from tests.tiny_device import tiny_device

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

REQUESTS = 10_000
CALLERS = 24
GROWTH_MB = 30.0
"""The evidence database grows by the answers, and so does what SQLite maps of it."""
SAMPLE_EVERY = 100
SETTLE_S = 20.0
SETTINGS = "[budget]\ntokens = 1000000000\n[serve]\nwaiting = 12\n"
ENGINE = "fedaigc_engine_"

BAD: tuple[dict[str, Any], ...] = (
    {"temperature": "warm"},
    {"max_tokens": -1},
    {"max_tokens": 1.5},
    {"messages": []},
    {"messages": [{"role": "ghost", "content": "boo"}]},
    {"messages": "hello"},
    {"model": "gpt-7"},
    {"model": None},
    {"mirostat": 2},
    {"n": 0},
    {"stop": [""] * 9},
    {"stream_options": {"include_usage": "maybe"}},
    {"top_p": 0},
    {"logit_bias": {"a": 1}},
    {"messages": [{"role": "user", "content": "the fox " * 3000}]},
)


def test_ten_thousand_random_requests_leave_nothing_behind(tmp_path: Path) -> None:
    with tiny_device(tmp_path, SETTINGS) as edge:
        outcomes, memory = asyncio.run(_soak(edge))
        _settled(edge)
        assert sum(outcomes.values()) == REQUESTS
        assert {"answered", "streamed", "left", "400"} <= set(outcomes), outcomes
        assert not {code for code in outcomes if code.startswith("5")}, outcomes
        assert growth_mb(memory) < GROWTH_MB, memory
        # It still answers as it did at first.
        assert edge.chat("the quick brown fox", 8)["usage"]["completion_tokens"] <= 8


async def _soak(edge: Edge) -> tuple[Counter[str], list[float]]:
    outcomes: Counter[str] = Counter()
    memory: list[float] = []
    numbers = iter(range(REQUESTS))
    pid = edge.running().process.pid

    async def caller(http: httpx.AsyncClient) -> None:
        for number in numbers:
            outcomes[await _one(http, random.Random(number))] += 1
            if number % SAMPLE_EVERY == 0:
                memory.append(rss_mb(pid))
                await asyncio.to_thread(_check_pool, edge)

    async with httpx.AsyncClient(base_url=edge.url, timeout=120, trust_env=False) as http:
        await asyncio.gather(*(caller(http) for _ in range(CALLERS)))
    return outcomes, memory


def _check_pool(edge: Edge) -> None:
    said = gauges(int(edge.url.rsplit(":", 1)[1]), ENGINE)
    assert said[f"{ENGINE}kv_peak_bytes"] <= said[f"{ENGINE}kv_limit_bytes"]
    assert said[f"{ENGINE}running"] <= said[f"{ENGINE}slots"]


def _settled(edge: Edge) -> None:
    port = int(edge.url.rsplit(":", 1)[1])
    deadline = time.monotonic() + SETTLE_S
    while (said := gauges(port, ENGINE))[f"{ENGINE}running"] + said[f"{ENGINE}waiting"] > 0:
        assert time.monotonic() < deadline, "a slot is still taken though nobody asks"
        time.sleep(0.1)
    assert said[f"{ENGINE}kv_promised_bytes"] == said[f"{ENGINE}kv_held_bytes"]
    assert said[f"{ENGINE}failed_total"] == 0


async def _one(http: httpx.AsyncClient, wish: random.Random) -> str:
    """Send one random request; returns how it ended."""
    body: dict[str, Any] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "the lazy dog jumps " * wish.choice((1, 3, 8))}],
        "max_tokens": wish.choice((1, 4, 12, 40)),
        "temperature": wish.choice((0, 0.8)),
        "stream": wish.random() < 0.6,
    }
    if wish.random() < 0.1:
        body |= wish.choice(BAD)
    if wish.random() < 0.02:
        answer = await http.post("/v1/chat/completions", content=json.dumps(body)[:-3].encode())
        return str(answer.status_code)
    leave_after = wish.choice((0, 1, 5)) if wish.random() < 0.25 else None
    if not body["stream"]:
        return await _whole(http, body, leave_after)
    return await _streamed(http, body, leave_after)


async def _whole(http: httpx.AsyncClient, body: dict[str, Any], leave_after: int | None) -> str:
    try:
        patience = 120.0 if leave_after is None else 0.01 * leave_after + 0.001
        answer = await http.post("/v1/chat/completions", json=body, timeout=patience)
    except httpx.TimeoutException:
        assert leave_after is not None, "an answer did not come in two minutes"
        return "left"
    return _checked(answer, answer.json()) if answer.status_code != 200 else "answered"


async def _streamed(http: httpx.AsyncClient, body: dict[str, Any], leave_after: int | None) -> str:
    async with http.stream("POST", "/v1/chat/completions", json=body) as answer:
        if answer.status_code != 200:
            return _checked(answer, json.loads(await answer.aread()))
        last = ""
        events = 0
        async for line in answer.aiter_lines():
            last = line or last
            events += bool(line)
            if leave_after is not None and events > leave_after:
                return "left"
        assert last == "data: [DONE]"
        return "streamed"


def _checked(answer: httpx.Response, body: dict[str, Any]) -> str:
    assert set(body["error"]) >= {"message", "type", "param", "code"}
    if answer.status_code == 429:
        assert int(answer.headers["retry-after"]) >= 1
    return str(answer.status_code)
