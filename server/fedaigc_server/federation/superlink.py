"""What to start for Flower on the server: SuperLink and SuperExec, on loopback, phoning nobody."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from fedaigc.child_process import ChildSpec
from fedaigc.closed_path import closed_path
from fedaigc.errors import ProcessFailed
from fedaigc.files import private_folder
from fedaigc_server.certificates import CertificateFiles
from fedaigc_server.listeners import unix_path

LOOPBACK = "127.0.0.1"
TASK_POLL_S = "0.3"
"""How often SuperExec asks for work; Flower's default of 1 s is felt in every round."""

ROUND_SOCKET = "FEDAIGC_ROUND_SOCKET"
"""Tells our ServerApp where the service listens: a run's settings may come from anyone on this machine."""

SERVER_APP = (sys.executable, "-m", "fedaigc_server.federation.server_app")
"""All that SuperExec can start: our ServerApp, whatever else a run on SuperLink asks for."""

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Every Flower process of ours, and every import of Flower in ours, runs with these."""


@dataclass(frozen=True)
class FlowerFolders:
    """Flower's part of the data folder; a home for each role, so no user-level file is read or written."""

    data: Path

    @property
    def root(self) -> Path:
        """`flower/`, private."""
        return private_folder(self.data / "flower")

    @property
    def database(self) -> Path:
        """Where SuperLink keeps its state."""
        return self.root / "superlink.db"

    def environment(self, role: str) -> dict[str, str]:
        """The variables of one role's process; console scripts are found beside our interpreter first."""
        home = private_folder(self.root / "home" / role)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        return {**QUIET, "FLWR_HOME": str(home), "FLWR_LOG_LEVEL": "WARNING", "PATH": path}


def superlink_spec(
    folders: FlowerFolders, port: int, certificates: CertificateFiles, secret: Path
) -> ChildSpec:
    """SuperLink on loopback `port`: SuperNode keys required, state on disk, no installing at run time.

    It needs TLS even on loopback: Flower refuses SuperNode authentication without it.
    """
    return ChildSpec(
        name="flower-superlink",
        arguments=(
            script("flower-superlink"),
            *("--host", LOOPBACK, "--port", str(port)),
            *("--ssl-certfile", str(certificates.certificate), "--ssl-keyfile", str(certificates.key)),
            *("--ssl-ca-certfile", str(certificates.ca)),
            *("--isolation", "process", "--enable-supernode-auth"),
            *("--superexec-auth-secret-file", str(secret)),
            *("--database", str(folders.database)),
            "--disable-runtime-dependency-installation",
        ),
        owner=folders.data,
        log=folders.data / "logs" / "flower-superlink.log",
        environment=folders.environment("superlink"),
    )


def superexec_spec(
    folders: FlowerFolders, port: int, certificates: CertificateFiles, secret: Path
) -> ChildSpec:
    """SuperExec, which starts one ServerApp process a round."""
    return ChildSpec(
        name="flower-superexec",
        arguments=(
            script("flower-superexec"),
            *("--runtime-api-address", f"{LOOPBACK}:{port}"),
            *("--root-certificates", str(certificates.ca)),
            *("--superexec-auth-secret-file", str(secret)),
        ),
        owner=folders.data,
        log=folders.data / "logs" / "flower-superexec.log",
        environment={
            **folders.environment("superexec"),
            "PATH": closed_path(folders.root / "bin", {"flwr-serverapp": SERVER_APP}),
            ROUND_SOCKET: str(unix_path(folders.data / "run" / "server.sock")),
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": TASK_POLL_S,
        },
    )


def script(name: str) -> str:
    """The console script beside our interpreter; raises ProcessFailed when the extra is not installed."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise ProcessFailed(
            f"{name} is not installed", f"it is not beside {sys.executable}", "install fedaigc[server]"
        )
    return str(path)
