"""A whole pipeline around a scripted generator, on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from fedaigc.errors import StorageError
from fedaigc.identifiers import PolicyVersion, new_request_id
from fedaigc.reward_head import RewardHead
from fedaigc.token_budget import TokenBudget
from fedaigc_edge.evidence.outbox import Outbox
from fedaigc_edge.listening import loopback_socket
from fedaigc_edge.serve.answer import AnswerHead
from fedaigc_edge.serve.choice_text import Delta
from fedaigc_edge.serve.http_api import HttpApi
from fedaigc_edge.serve.pipeline import Pipeline
from fedaigc_edge.serve.policy_gate import PolicyGate
from fedaigc_edge.serve.readiness import Readiness
from fedaigc_edge.serve.request import ChatMessage, GenerationRequest, UnknownModel
from fedaigc_edge.serve.served_model import ServedModel
from fedaigc_edge.serve.serving_metrics import ServingMetrics
from tests.edge.evidence.small_ledger import NODE, TENANT
from tests.edge.serve.scripted_generator import ScriptedGenerator

RULES = """
version: 1
rules:
  - id: no-apples
    action: reject
    severity: high
    category: fruit
    message: {en: Apples are not allowed., zh: 不允许苹果。}
    keywords: [forbidden apple, 禁果]
    regex: '\\b\\d{3}-\\d{2}-\\d{4}\\b'
"""


POLICY = PolicyVersion(3)


@dataclass(frozen=True)
class FixedPolicy:
    """A policy in force."""

    version: PolicyVersion = POLICY
    adapter_name: str | None = "policy-3"
    head: RewardHead | None = None


class FixedPolicies:
    """Policies that change only when a test says so."""

    def __init__(self) -> None:
        self.current = FixedPolicy()
        self.others: list[FixedPolicy] = []
        self.leases = 0

    @property
    def resident_versions(self) -> tuple[PolicyVersion, ...]:
        return tuple(policy.version for policy in (self.current, *self.others))

    @contextlib.contextmanager
    def lease(self, version: PolicyVersion | None = None) -> Iterator[FixedPolicy]:
        wanted = self.current.version if version is None else version
        held = {policy.version: policy for policy in (*self.others, self.current)}
        if wanted not in held:
            raise UnknownModel("gone", field="model")
        self.leases += 1
        try:
            yield held[wanted]
        finally:
            self.leases -= 1


class ListeningCaller:
    """A caller of the pipeline without HTTP: keeps what it gets, may leave after some pieces."""

    def __init__(self, streams: bool = True, leave_after: int | None = None) -> None:
        self.streams = streams
        self.gone = asyncio.Event()
        self.texts: list[str] = []
        self.heads: list[AnswerHead] = []
        self.deltas: list[Delta] = []
        self._leave_after = leave_after

    async def deliver(self, head: AnswerHead, deltas: Sequence[Delta]) -> None:
        self.heads.append(head)
        self.deltas += deltas
        self.texts.append("".join(delta.text for delta in deltas))
        if len(self.texts) == self._leave_after:
            self.gone.set()


def request(content: str = "tell me something", **changes: Any) -> GenerationRequest:
    messages = (ChatMessage("system", "be kind"), ChatMessage("user", content))
    asked = {"id": new_request_id(), "model": "tiny", "messages": messages, **changes}
    return GenerationRequest(**{**asked, "messages": ()} if asked.get("prompts") else asked)


@dataclass
class Parts:
    """A pipeline and everything in it; change a part before `pipeline` is first used."""

    folder: Path
    generator: ScriptedGenerator = field(default_factory=ScriptedGenerator)
    capacity: int = 100_000
    remembered: list[tuple[Any, ...]] = field(default_factory=list)
    remember_failure: Exception | None = None

    def __post_init__(self) -> None:
        rules = self.folder / "gate.yaml"
        rules.write_text(RULES, encoding="utf-8")
        self.gate = PolicyGate(rules)
        self.policies = FixedPolicies()
        self.outbox = Outbox(self.folder / "edge" / "evidence.db", NODE, TENANT.public)
        self.metrics = ServingMetrics()
        self.budget = TokenBudget(self.capacity, 3600, time.monotonic)

    def pipeline(self) -> Pipeline:
        """Made inside a running event loop."""
        return Pipeline(
            model=ServedModel("tiny"),
            gate=self.gate,
            budget=self.budget,
            generator=self.generator,
            policies=self.policies,
            outbox=self.outbox,
            remember=self._remember,
            metrics=self.metrics,
        )

    def _remember(self, *answer: Any) -> None:
        if self.remember_failure is not None:
            raise self.remember_failure
        self.remembered.append(answer)

    def fill_disk(self) -> Callable[[], None]:
        """From now on the evidence database can take no more; call what is returned to make room."""
        writer = self.outbox._writer

        def limit(pages: int) -> None:
            writer._connection.execute(f"PRAGMA max_page_count = {pages}")

        (pages,) = writer._connection.execute("PRAGMA page_count").fetchone()
        limit(pages)
        filler = "INSERT INTO vault VALUES (?, ?, 'm', zeroblob(?), x'', x'', '', x'')"
        numbers = itertools.count(-10_000)
        for size in (2000, 300, 1):
            with contextlib.suppress(StorageError):
                while True:
                    row = (number := next(numbers), f"filler {number}", size)
                    writer.submit(lambda c, row=row: c.execute(filler, row)).result(5)  # type: ignore[misc]
        return lambda: limit(1_000_000)


class RunningApi:
    """The HTTP API on a free port of a real server, in a thread of its own."""

    def __init__(self, parts: Parts, feedback: Callable[[dict[str, Any]], str] | None = None) -> None:
        self.parts = parts
        self.readiness = Readiness()
        self.feedback: list[dict[str, Any]] = []
        self.port = 0
        self._feedback = feedback or self._keep
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def _keep(self, body: dict[str, Any]) -> str:
        self.feedback.append(body)
        return f"f-{len(self.feedback)}"

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.api = HttpApi(self.readiness, self.parts.outbox, self._feedback, self.parts.metrics)
        pipeline = self.parts.pipeline()
        self.readiness.open(pipeline)
        listening = loopback_socket(0)
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            self.api.app, log_config=None, lifespan="off", timeout_graceful_shutdown=1, ws="none"
        )
        self.server = uvicorn.Server(config)
        self.server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._started.set()
        await self.server.serve([listening])
        await pipeline.end()

    def __enter__(self) -> RunningApi:
        self._thread.start()
        self._started.wait(10)
        while not self.server.started:
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End as a SIGTERM would."""
        self.server.should_exit = True
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def until(true: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)
