"""Flower's ClientApp on the device: it hands each message to the daemon and returns the daemon's answer.

A fresh process runs this for every message, so nothing is kept and no model is loaded. It never raises:
Flower would send the exception's text to the server.

A Flower run carries the code that devices should run. Ours do not: started as `flwr-clientapp`, this module
runs itself, whatever a server names or sends, and unpacks nothing.
"""

from __future__ import annotations

import importlib
import json
import time
from typing import Any

import httpx
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedaigc.errors import ProcessFailed

RECORD = "fedaigc"
MAX_ANSWER_BYTES = 65 << 20
CONNECT_S = 5.0
STATUS_S = 60.0
ROUND_S = 6 * 3600.0
"""The message's own time to live ends a round long before."""
TRIES = 6
"""A daemon that is being restarted is back within this many tries."""
PAUSE_S = 5.0

app = ClientApp()


@app.query("status")
def status(message: Message, context: Context) -> Message:
    """Answer what the device could contribute: `{"status": bytes}` or `{"error": bytes}`."""
    return _reply(message, _asked(context, "/status", b"", STATUS_S, "status"))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Pass the signed plan on: `{"update": bytes}`, the signed update, or `{"error": bytes}`."""
    try:
        plan = message.content[RECORD]["plan"]
    except Exception:  # nothing about a message may reach Flower as an exception
        plan = None
    if not isinstance(plan, bytes):
        return _reply(message, _failed("malformed_message", "the message holds no plan"))
    return _reply(message, _asked(context, "/round", plan, ROUND_S, "update"))


def _reply(message: Message, record: ConfigRecord) -> Message:
    return Message(RecordDict({RECORD: record}), reply_to=message)


def _asked(context: Context, path: str, body: bytes, wait_s: float, field: str) -> ConfigRecord:
    try:
        return _ask(str(context.node_config["socket"]), path, body, wait_s, field)
    except Exception as error:  # the type's name alone: its text could quote content
        return _failed("daemon_unreachable", f"the device's daemon did not answer ({type(error).__name__})")


def _ask(socket: str, path: str, body: bytes, wait_s: float, field: str) -> ConfigRecord:
    timeout = httpx.Timeout(wait_s, connect=CONNECT_S)
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket), timeout=timeout) as http:
        for attempt in range(1, TRIES + 1):
            try:
                answer = http.post(f"http://daemon{path}", content=body)
                break
            except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError):
                # Asking twice is harmless: a round is done once, whatever is asked.
                if attempt == TRIES:
                    raise
                time.sleep(PAUSE_S)
    if len(answer.content) > MAX_ANSWER_BYTES:
        return _failed("answer_too_large", "the daemon's answer is too large")
    if answer.status_code == 200:
        return ConfigRecord({field: answer.content})
    error = answer.json()["error"]
    return _failed(str(error["code"]), str(error["what"]), str(error.get("why", "")))


def _failed(code: str, what: str, why: str = "") -> ConfigRecord:
    return ConfigRecord({"error": json.dumps({"code": code, "what": what, "why": why}).encode("utf-8")})


def main() -> None:
    """Stand in for `flwr-clientapp`. Raises ProcessFailed when this Flower cannot be held to our app."""
    hold_to_this_app(importlib.import_module("flwr.supernode.runtime.run_clientapp"))
    importlib.import_module("flwr.supernode.cli.flwr_clientapp").flwr_clientapp()


def hold_to_this_app(runtime: Any) -> None:
    """Let Flower's runner neither unpack nor load what came over the network; raises ProcessFailed."""

    def nothing(*_: object, **__: object) -> None:
        return None

    def ours(*_: object, **__: object) -> Any:
        return lambda *_, **__: app

    for name, replacement in (
        ("install_from_fab", nothing),
        ("install_app_dependencies", nothing),
        ("get_load_client_app_fn", ours),
    ):
        if not hasattr(runtime, name):
            raise ProcessFailed(
                "Flower's ClientApp runner is not the one that this version knows",
                f"it has no {name}, so a server's code might be run",
                "install flwr==1.42.*",
            )
        setattr(runtime, name, replacement)


if __name__ == "__main__":
    main()
