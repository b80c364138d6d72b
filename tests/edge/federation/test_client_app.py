"""The ClientApp passes bytes to the daemon and back, and never raises."""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedaigc.errors import ProcessFailed, TrainingFailed
from fedaigc_edge.federation import client_app
from fedaigc_edge.listening import private_unix_socket
from fedaigc_edge.local_socket import DaemonActs, socket_app

PLAN = b"\x00signed plan"


async def _round(plan: bytes) -> bytes:
    if plan != PLAN:
        raise TrainingFailed("The update did not move", "too few pairs", "collect more feedback")
    return b"\x01update"


async def _status() -> dict[str, Any]:
    return {"node": "n-1", "pairs_new": 3}


async def _full_status() -> dict[str, Any]:
    return await _status()


@contextmanager
def _daemon(path: Path) -> Iterator[None]:
    app = socket_app(DaemonActs(_status, _round, _full_status, lambda: None))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, args=([private_unix_socket(path)],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(10)


def _send(kind: str, content: RecordDict, socket: Path | None) -> ConfigRecord:
    config = {"socket": str(socket)} if socket else {}
    context = Context(1, 2, cast(Any, config), RecordDict(), {})
    message = Message(content, dst_node_id=2, message_type=kind)
    reply = client_app.app(message, context)
    return cast(ConfigRecord, reply.content[client_app.RECORD])


def _plan(plan: Any) -> RecordDict:
    return RecordDict({client_app.RECORD: ConfigRecord({"plan": plan})})


@pytest.fixture(autouse=True)
def _as_in_a_flower_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_app, "PAUSE_S", 0.01)
    for part in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, part, 1)


def test_a_status_query_returns_the_daemons_bytes(tmp_path: Path) -> None:
    with _daemon(tmp_path / "s"):
        reply = _send("query.status", RecordDict({"fedaigc": ConfigRecord({"v": 1})}), tmp_path / "s")
    assert json.loads(cast(bytes, reply["status"])) == asyncio.run(_status())


def test_a_plan_goes_in_and_an_update_comes_out_byte_for_byte(tmp_path: Path) -> None:
    with _daemon(tmp_path / "s"):
        reply = _send(MessageType.TRAIN, _plan(PLAN), tmp_path / "s")
    assert reply["update"] == b"\x01update"


def test_a_failed_round_is_an_error_record_not_an_exception(tmp_path: Path) -> None:
    with _daemon(tmp_path / "s"):
        reply = _send(MessageType.TRAIN, _plan(b"other"), tmp_path / "s")
    assert json.loads(cast(bytes, reply["error"])) == {
        "code": "training",
        "what": "The update did not move",
        "why": "too few pairs",
    }


@pytest.mark.parametrize("kind", [MessageType.TRAIN, "query.status"])
@pytest.mark.parametrize("named", [True, False])
def test_without_a_daemon_the_reply_says_so(tmp_path: Path, kind: str, named: bool) -> None:
    reply = _send(kind, _plan(PLAN), tmp_path / "none" if named else None)
    error = json.loads(cast(bytes, reply["error"]))
    assert error["code"] == "daemon_unreachable"
    assert str(tmp_path) not in error["what"]


def test_a_message_without_a_plan_is_answered_without_asking_the_daemon(tmp_path: Path) -> None:
    for content in (RecordDict(), _plan("text"), _plan(7)):
        reply = _send(MessageType.TRAIN, content, tmp_path / "none")
        assert json.loads(cast(bytes, reply["error"]))["code"] == "malformed_message"


def test_a_daemon_that_is_being_restarted_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_app, "PAUSE_S", 0.3)
    replies = list[ConfigRecord]()
    asking = threading.Thread(
        target=lambda: replies.append(_send(MessageType.TRAIN, _plan(PLAN), tmp_path / "s"))
    )
    asking.start()
    time.sleep(0.4)
    with _daemon(tmp_path / "s"):
        asking.join(10)
    assert replies[0]["update"] == b"\x01update"


def test_whatever_a_server_names_our_app_is_loaded_and_nothing_unpacked() -> None:
    runtime = SimpleNamespace(
        install_from_fab=print, install_app_dependencies=print, get_load_client_app_fn=print
    )
    client_app.hold_to_this_app(runtime)
    assert runtime.install_from_fab(b"archive", skip_prompt=True) is None
    assert runtime.install_app_dependencies("path", launch_id="x") is None
    load = runtime.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)
    assert load("evil/app", "1.0", "hash") is client_app.app


def test_the_installed_flower_has_what_is_held() -> None:
    runtime = importlib.import_module("flwr.supernode.runtime.run_clientapp")
    for name in ("install_from_fab", "install_app_dependencies", "get_load_client_app_fn"):
        assert callable(getattr(runtime, name))


def test_a_flower_that_cannot_be_held_is_not_run() -> None:
    with pytest.raises(ProcessFailed, match=r"1\.42"):
        client_app.hold_to_this_app(SimpleNamespace(install_from_fab=print))
