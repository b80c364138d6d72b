"""Whoever gets a run into SuperLink still runs no code of his own: not on the server, not on a device."""

from __future__ import annotations

import hashlib
from pathlib import Path

import psutil
import pytest

from fedaigc.child_process import OWNER_VARIABLE
from tests.daemons import wait_for
from tests.fleet import Edge, Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PROJECT = """
[project]
name = "foreign"
version = "1.0.0"
description = "foreign"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "someone"
[tool.flwr.app.components]
serverapp = "foreign:server"
clientapp = "foreign:device"
[tool.flwr.app.config]
"""
CODE = """
import pathlib, time
pathlib.Path({marks!r}).joinpath("ran-" + str(time.time())).touch()
from flwr.serverapp import ServerApp
from flwr.clientapp import ClientApp
server, device = ServerApp(), ClientApp()
"""


def _superlink_port(server: Server) -> str:
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if (
                process.environ().get(OWNER_VARIABLE) == str(server.data)
                and "--enable-supernode-auth" in words
            ):
                return words[words.index("--port") + 1]
        except psutil.Error:
            continue
    raise AssertionError("no SuperLink found")


def _run_foreign_code(server: Server, marks: Path) -> str:
    """Submit the run as any local user could; how it ended."""
    from flwr.cli.build import build_fab_from_files
    from flwr.cli.typing import SuperLinkConnection
    from flwr.cli.utils import init_http_client_from_connection
    from flwr.common.serde import fab_to_proto
    from flwr.proto.control_pb2 import ListRunsRequest, StartRunRequest
    from flwr.supercore.fab import Fab

    files = {"pyproject.toml": PROJECT.encode(), "foreign.py": CODE.format(marks=str(marks)).encode()}
    archive = build_fab_from_files(files)[0]
    address, trust = f"127.0.0.1:{_superlink_port(server)}", str(server.data / "keys" / "ca.crt")
    control = init_http_client_from_connection(
        SuperLinkConnection(name="x", address=address, root_certificates=trust)
    )
    fab = Fab(hashlib.sha256(archive).hexdigest(), archive, {})
    run = control.StartRun(StartRunRequest(fab=fab_to_proto(fab))).run_id

    def ended() -> str | None:
        status = control.ListRuns(ListRunsRequest(run_id=run)).run_dict[run].status
        return str(status.sub_status) if status.status == "finished" else None

    try:
        return wait_for("the foreign run to end", ended, 60)
    finally:
        control.close()


def test_a_run_submitted_on_the_server_s_own_machine_runs_no_foreign_code(
    server: Server, edges: list[Edge], tmp_path: Path
) -> None:
    assert _run_foreign_code(server, tmp_path) == "failed"
    assert list(tmp_path.iterdir()) == []
    assert edges[0].chat("Hello", max_tokens=2)["choices"]
