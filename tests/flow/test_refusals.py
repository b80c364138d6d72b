"""Who may not come in is told why, and what to do next."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedaigc.join_token import JoinToken
from tests.daemons import BIN, ENVIRONMENT, wait_for
from tests.fleet import MODEL, Edge, Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def _join(folder: Path, models: Path, server: Server, token: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            BIN / "fedaigc-edge", "join", f"https://127.0.0.1:{server.port}", "--token", token,
            "--data", folder, "--models", models, "--model", MODEL, "--port", "0", "--no-serve",
        ],
        env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_expired_token_is_refused(server: Server, models: Path, tmp_path: Path) -> None:
    made = server.command("token", "create", "--region", "test", "--hours", "0.0002")
    time.sleep(1.5)
    refused = _join(tmp_path / "edge", models, server, made["token"])
    assert refused.returncode == 5
    assert "expired" in refused.stderr
    assert "token create" in refused.stderr


def test_a_used_token_is_refused_for_a_second_device(server: Server, models: Path, tmp_path: Path) -> None:
    token = server.token("test")["token"]
    assert _join(tmp_path / "first", models, server, token).returncode == 0
    assert _join(tmp_path / "first", models, server, token).returncode == 0, "joining again must be harmless"
    refused = _join(tmp_path / "second", models, server, token)
    assert refused.returncode == 5
    assert "used" in refused.stderr
    assert "token create" in refused.stderr


def test_a_server_with_another_ca_is_refused_before_the_secret_is_sent(
    server: Server, models: Path, tmp_path: Path
) -> None:
    token = JoinToken.decode(server.token("test")["token"])
    other = dataclasses.replace(token, ca_sha256="00" * 32).encode()
    refused = _join(tmp_path / "edge", models, server, other)
    assert refused.returncode == 10
    assert "CA" in refused.stderr
    received = b"".join(path.read_bytes() for path in server.tap.rglob("*") if path.is_file())
    assert token.secret.encode() not in received
    assert _join(tmp_path / "edge", models, server, token.encode()).returncode == 0, "the token is still good"


def test_a_supernode_with_an_unenrolled_key_is_refused(server: Server, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    path = tmp_path / "rogue.key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    path.chmod(0o600)
    # A refused SuperNode leaves its superexec behind: output to a file, and the whole group is ended.
    with (tmp_path / "output").open("wb") as output:
        refused = subprocess.Popen(
            [
                BIN / "flower-supernode", "--superlink", f"127.0.0.1:{server.port}",
                "--root-certificates", server.data / "keys" / "ca.crt",
                "--auth-supernode-private-key", path, "--port", str(_free_port()), "--max-retries", "2",
            ],
            env={**ENVIRONMENT, "FLWR_HOME": str(tmp_path / "flwr"), "PATH": f"{BIN}:{ENVIRONMENT['PATH']}"},
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        assert refused.wait(90) != 0
    finally:
        os.killpg(refused.pid, signal.SIGKILL)
    said = (tmp_path / "output").read_text(encoding="utf-8")
    assert "not registered" in said
    assert "token" in said


def test_a_revoked_node_stops_generating_and_is_told_what_to_do(server: Server, edges: list[Edge]) -> None:
    victim, other = edges
    node = victim.status()["node"]
    server.command("node", "revoke", node)

    def stopped() -> dict[str, object] | None:
        state = victim.status()
        return state if state["standing"] == "revoked" else None

    wait_for("the device to learn of its revocation", stopped, 90)
    question = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    refused = httpx.post(f"{victim.url}/v1/chat/completions", json=question, timeout=30)
    assert refused.status_code == 503
    assert "token" in refused.json()["error"]["message"]
    assert other.chat("Hello", max_tokens=4)["choices"]
    (shown,) = (one for one in server.command("node", "list")["nodes"] if one["node"] == node)
    assert shown["standing"] == "revoked"
