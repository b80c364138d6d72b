"""The few calls that we make to SuperLink's Control API; only this and server_app.py import Flower."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import httpx

from fedaigc import __version__
from fedaigc.errors import ProcessFailed, Unavailable

if TYPE_CHECKING:
    from flwr.supercore.control import ControlHttpClient

log = logging.getLogger(__name__)

_ALREADY_IN_USE, _NODE_NOT_FOUND, _RUN_NOT_FOUND, _ALREADY_FINISHED = 23, 24, 16, 18

GONE, RUNNING, ENDED = "gone", "running", "ended"
"""What a Flower run can be, as far as a round cares."""

# The code lives in our installed packages; the archive that Flower hands around holds only this.
_PROJECT = f"""\
[project]
name = "fedaigc-round"
version = "{__version__}"
description = "One FedAIGC round"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "fedaigc"
[tool.flwr.app.components]
serverapp = "fedaigc_server.federation.server_app:app"
clientapp = "fedaigc_edge.federation.client_app:app"
[tool.flwr.app.config]
round = ""
attempt = 0
"""


class SuperLinkApi:
    """Blocking calls to one SuperLink; each raises Unavailable when it cannot be reached."""

    def __init__(self, address: str, ca_file: str) -> None:
        self._address = address
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._opened: ControlHttpClient | None = None

    def register(self, public_key_pem: str) -> str:
        """Let the SuperNode with this key in; returns its Flower node id. Doing it twice changes nothing."""
        from flwr.proto.control_pb2 import RegisterNodeRequest

        key = public_key_pem.encode("ascii")
        try:
            with self._calls() as control:
                return str(control.RegisterNode(RegisterNodeRequest(public_key=key)).node_id)
        except _Refused as refused:
            known = self.registered().get(public_key_pem) if refused.code == _ALREADY_IN_USE else None
            if known is None:
                raise ProcessFailed(
                    "Flower did not register the device's key",
                    f"its code is {refused.code}",
                    "run: fedaigc-edge leave, then join with a new token",
                ) from refused
            return known

    def unregister(self, flower_id: str) -> None:
        """Shut the SuperNode out; one that is already out is fine."""
        from flwr.proto.control_pb2 import UnregisterNodeRequest

        try:
            with self._calls() as control:
                control.UnregisterNode(UnregisterNodeRequest(node_id=int(flower_id)))
        except _Refused as refused:
            if refused.code != _NODE_NOT_FOUND:
                raise ProcessFailed(
                    "Flower did not remove a node", f"its code is {refused.code}", "restart the server"
                ) from refused

    def registered(self) -> dict[str, str]:
        """Public key (PEM) -> Flower node id of every SuperNode that Flower lets in."""
        from flwr.proto.control_pb2 import ListNodesRequest

        with self._calls() as control:
            nodes = control.ListNodes(ListNodesRequest()).nodes_info
        return {
            node.public_key.decode("ascii"): str(node.node_id) for node in nodes if not node.unregistered_at
        }

    def online(self) -> set[str]:
        """The Flower node ids that sent a heartbeat lately."""
        from flwr.proto.control_pb2 import ListNodesRequest

        with self._calls() as control:
            nodes = control.ListNodes(ListNodesRequest()).nodes_info
        return {str(node.node_id) for node in nodes if node.status == "online"}

    def start_run(self, round_id: str, attempt: int) -> str:
        """Start one Flower run for a round; returns the run id."""
        from flwr.common.serde import fab_to_proto, user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        content = app_archive()
        fab = fab_to_proto(Fab(hashlib.sha256(content).hexdigest(), content, {}))
        config = user_config_to_proto({"round": round_id, "attempt": attempt})
        try:
            with self._calls() as control:
                run = control.StartRun(StartRunRequest(fab=fab, override_config=config)).run_id
        except _Refused as refused:
            raise ProcessFailed(
                "Flower did not start the round", f"its code is {refused.code}", "see flower-superlink.log"
            ) from refused
        return str(run)

    def run_state(self, run_id: str) -> str:
        """GONE, RUNNING (also when pending) or ENDED; asking lets Flower drop an ended run's data."""
        from flwr.proto.control_pb2 import ListRunsRequest

        try:
            with self._calls() as control:
                runs = control.ListRuns(ListRunsRequest(run_id=int(run_id))).run_dict
        except _Refused as refused:
            if refused.code == _RUN_NOT_FOUND:
                return GONE
            raise Unavailable(
                "Flower did not say how a run goes", f"its code is {refused.code}", "wait"
            ) from refused
        run = runs.get(int(run_id))
        if run is None:
            return GONE
        return ENDED if run.status.status == "finished" else RUNNING

    def stop_run(self, run_id: str) -> None:
        """End a run; one that has ended or was never there is fine."""
        from flwr.proto.control_pb2 import StopRunRequest

        try:
            with self._calls() as control:
                control.StopRun(StopRunRequest(run_id=int(run_id)))
        except _Refused as refused:
            if refused.code not in (_RUN_NOT_FOUND, _ALREADY_FINISHED):
                log.warning("event=run_not_stopped run=%s code=%s", run_id, refused.code)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    @contextmanager
    def _calls(self) -> Iterator[ControlHttpClient]:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.error import FlowerError

        with self._lock:
            if self._opened is None:
                # Without Flower's interceptors: its version check would end our process.
                self._opened = ControlHttpClient.from_server_address(self._address, False, self._ca_file, [])
            try:
                yield self._opened
            except httpx.HTTPStatusError as error:
                flower = FlowerError.from_json(error.response.text)
                raise _Refused(flower.code if flower else error.response.status_code) from error
            except httpx.HTTPError as error:
                raise Unavailable(
                    "Flower's SuperLink does not answer",
                    type(error).__name__,
                    "it restarts by itself; try again in a few seconds, then see flower-superlink.log",
                ) from error


class _Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


@cache
def app_archive() -> bytes:
    """The archive that our runs carry, the same bytes in every process of this version."""
    from flwr.cli.build import build_fab_from_files

    return build_fab_from_files({"pyproject.toml": _PROJECT.encode()})[0]
