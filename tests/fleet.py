"""A server and devices as real processes on free ports, for the demo and for the tests that kill them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.daemons import Daemon, StoryFailed, command, command_json, wait_for

MODEL = "smollm2-135m"
START_SECONDS = 90.0


@dataclass
class Server:
    """One datacenter server with its data, officer and tap folders below `root`."""

    root: Path
    daemon: Daemon | None = None

    @property
    def data(self) -> Path:
        """The server's data folder."""
        return self.root / "server"

    @property
    def officer(self) -> Path:
        """The officer's folder."""
        return self.root / "officer"

    @property
    def tap(self) -> Path:
        """Where everything that the public port received is kept."""
        return self.root / "tap"

    def start(self, port: int = 0) -> None:
        """Start the server and wait until its admin API answers."""
        self.daemon = Daemon.start(
            "server", self.root / "logs",
            "fedaigc-server", "start", "--data", self.data, "--officer", self.officer,
            "--port", port, "--admin-port", 0, "--tap", self.tap,
        )  # fmt: skip
        wait_for("the server", self._status, START_SECONDS, self.daemon)

    def _status(self) -> dict[str, Any] | None:
        try:
            return self.command("status")
        except (StoryFailed, json.JSONDecodeError):
            return None

    def command(self, *arguments: object) -> dict[str, Any]:
        """Run one `fedaigc-server` command with `--json`."""
        return command_json("fedaigc-server", *arguments, "--data", self.data)

    def token(self, region: str) -> dict[str, Any]:
        """A fresh join token: `token`, `address`, `expires`."""
        return self.command("token", "create", "--region", region)

    def running(self) -> Daemon:
        """The living process; raises StoryFailed when it was never started."""
        if self.daemon is None:
            raise StoryFailed("the server was not started")
        self.daemon.check()
        return self.daemon

    @property
    def port(self) -> int:
        """The public port in use."""
        address = json.loads((self.data / "run" / "public.json").read_text(encoding="utf-8"))["url"]
        return int(str(address).rsplit(":", 1)[1])


@dataclass
class Edge:
    """One device."""

    name: str
    root: Path
    models: Path
    model: str = MODEL
    daemon: Daemon | None = None
    arguments: tuple[object, ...] = field(default=())

    @property
    def data(self) -> Path:
        """The device's data folder."""
        return self.root / self.name

    def join(self, url: str, token: str, *extra: object) -> None:
        """Run `fedaigc-edge join`; the same call again restarts the device."""
        self.arguments = (
            "join", url, "--token", token, "--data", self.data, "--models", self.models,
            "--model", self.model, "--port", 0, *extra,
        )  # fmt: skip
        self.restart()

    def restart(self) -> None:
        """The same command once more, then wait until the API is ready."""
        (self.data / "run" / "api.json").unlink(missing_ok=True)
        self.daemon = Daemon.start(self.name, self.root / "logs", "fedaigc-edge", *self.arguments)
        wait_for(f"{self.name} to be ready", self._ready, START_SECONDS, self.daemon)

    def _ready(self) -> bool | None:
        try:
            return httpx.get(f"{self.url}/ready", timeout=5).status_code == 200 or None
        except (httpx.HTTPError, OSError, ValueError, KeyError):
            return None

    @property
    def url(self) -> str:
        """The local API's address, from the file that the daemon writes."""
        record = json.loads((self.data / "run" / "api.json").read_text(encoding="utf-8"))
        return str(record["url"])

    def status(self) -> dict[str, Any]:
        """What `fedaigc-edge status --json` says."""
        return command_json("fedaigc-edge", "status", "--data", self.data)

    def running(self) -> Daemon:
        """The living process; raises StoryFailed when it was never started."""
        if self.daemon is None:
            raise StoryFailed(f"{self.name} was not started")
        self.daemon.check()
        return self.daemon

    def chat(self, prompt: str, max_tokens: int = 40, **fields: Any) -> dict[str, Any]:
        """One non-streamed, greedy answer as OpenAI's JSON."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
            **fields,
        }
        answer = httpx.post(f"{self.url}/v1/chat/completions", json=body, timeout=120)
        answer.raise_for_status()
        record: dict[str, Any] = answer.json()
        return record

    def feedback(self, **fields: Any) -> None:
        """Post one piece of feedback."""
        httpx.post(f"{self.url}/v1/feedback", json=fields, timeout=30).raise_for_status()

    def receipt(self, request_id: str) -> str | None:
        """The receipt of one answer, once the ledger has given it."""
        answer = httpx.get(f"{self.url}/v1/receipts/{request_id}", timeout=30)
        return answer.text if answer.status_code == 200 else None

    def receipts(self, request_ids: list[str], seconds: float = 60.0) -> dict[str, str]:
        """Every receipt of `request_ids`; raises StoryFailed when one does not come in time."""
        found: dict[str, str] = {}
        deadline = time.monotonic() + seconds
        while len(found) < len(request_ids):
            self.running()
            for request_id in request_ids:
                text = found.get(request_id) or self.receipt(request_id)
                if text is not None:
                    found[request_id] = text
            if time.monotonic() > deadline:
                raise StoryFailed(
                    f"{self.name}: {len(request_ids) - len(found)} receipts missing after {seconds} s"
                )
            time.sleep(0.2)
        return found


def stop_all(*members: Server | Edge) -> None:
    """Stop every running member, devices before servers."""
    for member in sorted(members, key=lambda one: isinstance(one, Server)):
        if member.daemon is not None:
            member.daemon.stop()


__all__ = ["MODEL", "Edge", "Server", "command", "stop_all"]
