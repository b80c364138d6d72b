"""The servers that are measured side by side, each held still while another is measured."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.core_pinning import bench_core, on_cores, other_cores
from bench.failure import BenchFailed
from bench.llama import Llama
from tests.fleet import Edge, Server, stop_all

START_SECONDS = 120.0
GATE = Path(__file__).resolve().parents[1] / "configs" / "gate.yaml"
TIMINGS_HEADER = {"x-fedaigc-timings": "1"}
_ENDS = {"<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "</s>"}
BUDGET_TOKENS = 1_000_000_000
"""The budget is on but never in the way: a benchmark asks for more in an hour than people do."""


@dataclass(frozen=True)
class Contender:
    """One running server: its name in tables, port, main process, and what every request to it carries."""

    name: str
    port: int
    process: int
    fields: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self, prompt: str, tokens: int) -> dict[str, Any]:
        """A greedy request for an answer of exactly `tokens` tokens."""
        messages = [{"role": "user", "content": prompt}]
        return {"messages": messages, "max_tokens": tokens, "temperature": 0, **self.fields}

    def rss_mb(self) -> float:
        """Resident memory of the serving process, 10^6 bytes."""
        return float(psutil.Process(self.process).memory_info().rss) / 1e6

    @property
    def tree(self) -> list[psutil.Process]:
        """The serving process and everything that it started."""
        main = psutil.Process(self.process)
        return [main, *main.children(recursive=True)]


@contextlib.contextmanager
def alone(measured: Contender, everybody: Sequence[Contender]) -> Iterator[None]:
    """Hold every other contender still, its children too, so that idling costs the measured one nothing."""
    held = [process for one in everybody if one is not measured for process in one.tree]
    for process in held:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in held:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def our_server(
    run: Path, models: Path, model: str, settings: str = "", threads: int = 1
) -> Iterator[Contender]:
    """A device that has joined a real datacenter server: gate, budget, fingerprints and outbox are on.

    The device and its Flower processes run on the bench core, the datacenter on the others. `settings` is
    TOML appended to the device's `[serve]` table.
    """
    datacenter = Server(run)
    edge = Edge("edge", run, models, model)
    run.mkdir(parents=True, exist_ok=True)
    config = run / "edge.toml"
    config.write_text(
        f'[budget]\ntokens = {BUDGET_TOKENS}\n[serve]\ngate = "{GATE}"\nthreads = {threads}\n{settings}\n',
        encoding="utf-8",
    )
    try:
        with on_cores(other_cores()):
            datacenter.start()
            token = datacenter.token("bench")["token"]
        with on_cores({bench_core()}):
            edge.join(f"https://127.0.0.1:{datacenter.port}", token, "--config", config)
        port = int(edge.url.rsplit(":", 1)[1])
        pid = edge.running().process.pid
        fields = {"model": model, "stream_options": {"include_usage": True}, **_unending(port, model, models)}
        yield Contender("fedaigc", port, pid, fields, TIMINGS_HEADER)
    finally:
        stop_all(edge, datacenter)


@contextlib.contextmanager
def llama_server(
    llama: Llama, name: str, gguf: Path, run: Path, context: int, ends: Sequence[int]
) -> Iterator[Contender]:
    """`llama_cpp.server` with one thread on the bench core; `ends` are the tokens that must not be chosen."""
    port = _free_port()
    run.mkdir(parents=True, exist_ok=True)
    # By default it keeps the logits of every token for logprobs, which nobody asks for here.
    # By default a new request cuts off the running one.
    options = {
        "model": gguf, "n_ctx": context, "n_threads": 1, "n_threads_batch": 1, "interrupt_requests": False,
        "logits_all": False, "host": "127.0.0.1", "port": port, "verbose": False,
    }  # fmt: skip
    words = [text for key, value in options.items() for text in (f"--{key}", str(value))]
    with on_cores({bench_core()}), (run / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(llama.python), "-m", "llama_cpp.server", *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_plain_environment(),
        )  # fmt: skip
    try:
        _wait(process, f"http://127.0.0.1:{port}/v1/models", run / f"{name}.log")
        bias = {"logit_bias": {str(token): -100 for token in ends}}
        yield Contender(name, port, process.pid, bias)
    finally:
        process.terminate()
        process.wait(30)


def end_tokens(model_root: Path) -> list[int]:
    """The tokens with which the model, or llama.cpp by their spelling, ends an answer."""
    tokenizer = json.loads((model_root / "hf" / "tokenizer.json").read_text(encoding="utf-8"))
    return [token["id"] for token in tokenizer["added_tokens"] if token["content"] in _ENDS]


def context_length(model_root: Path) -> int:
    """Tokens of prompt and answer together that the model takes."""
    config = json.loads((model_root / "hf" / "config.json").read_text(encoding="utf-8"))
    return int(config["max_position_embeddings"])


def _unending(port: int, model: str, models: Path) -> dict[str, Any]:
    bias = {"logit_bias": {str(token): -100 for token in end_tokens(models / model)}}
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, **bias}
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body, timeout=60)
    return bias if answer.status_code == 200 else {}


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=5).status_code == 200:
                return
        time.sleep(0.2)
    raise BenchFailed(
        f"llama_cpp.server does not serve; {log} ends:\n{log.read_text(errors='replace')[-2000:]}"
    )


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
