"""The running server with real Flower: devices join, a round releases a policy, and kill -9 loses nothing."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from fedaigc.child_process import end_leftovers
from fedaigc.ledger_check import check_receipt
from fedaigc.manifest import PolicyManifest
from fedaigc_server.federation.processes import free_port
from tests.server.fake_device import FakeDevice, enrol_over_tls
from tests.server.live_server import LiveServer, live_server, supernode, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("live")) as running:
        yield running


@contextlib.contextmanager
def joined(server: LiveServer, folder: Path, name: str, seconds: float = 0.0) -> Iterator[FakeDevice]:
    """A device that is enrolled and whose SuperNode is connected."""
    device = FakeDevice(name)
    token = server.json("token", "create")["token"]
    assert enrol_over_tls(device, token, server.ca).status_code == 200
    socket = folder / f"{name}.sock"
    key = device.write_flower_key(folder)
    with device.daemon(socket, seconds), supernode(folder, name, server, key, socket) as log:
        wait_for(lambda: "SuperNode ID" in log.read_text(), 60)
        yield device


def flower_process(server: LiveServer, name: str) -> psutil.Process:
    """The server's child of this name."""
    assert server.process is not None
    children = psutil.Process(server.process.pid).children()
    (found,) = (child for child in children if name in " ".join(child.cmdline()))
    return found


def test_a_round_over_flower_releases_a_policy_that_devices_can_verify(
    server: LiveServer, tmp_path: Path
) -> None:
    with joined(server, tmp_path, "one") as one, joined(server, tmp_path, "two"):
        ended = server.json("round", "run", "--min-nodes", "2", "--deadline", "120")
    assert ended["state"] == "released", ended
    assert [update["verdict"] for update in ended["updates"]] == ["accepted", "accepted"]
    path = f"/v1/policies/{ended['policy']}"
    with httpx.Client(verify=str(server.ca), base_url=f"https://127.0.0.1:{server.port}") as http:
        signed = http.get(path, headers=one.headers("GET", path)).content
        manifest = PolicyManifest.open(signed, one.release_public)
        assert (manifest.round, manifest.updates) == (ended["round"], 2)
        blob = f"/v1/blobs/{manifest.adapter}"
        assert http.get(blob, headers=one.headers("GET", blob)).status_code == 200
    assert not list((server.data / "updates").rglob("n-*")), "single updates must not be kept"
    listed = server.json("policy", "list")["policies"]
    assert [item["version"] for item in listed] == list(range(1, ended["policy"] + 1))


def test_a_round_goes_on_after_the_server_was_killed(server: LiveServer, tmp_path: Path) -> None:
    before = server.json("status")["policy"]
    with joined(server, tmp_path, "one", seconds=6) as one, joined(server, tmp_path, "two", seconds=6) as two:
        one.policy = two.policy = before
        begun = server.json("round", "run", "--min-nodes", "2", "--deadline", "240", "--no-wait")["round"]
        wait_for(lambda: one.asked > 0, 90)
        server.kill()
        time.sleep(2)
        server.start()
        wait_for(lambda: server.json("round", "show", begun)["state"] in ("released", "failed"), 240)
        ended = server.json("round", "show", begun)
    assert ended["state"] == "released", ended
    assert ended["attempt"] > 1
    assert ended["policy"] == before + 1


def test_a_round_goes_on_after_superlink_was_killed(server: LiveServer, tmp_path: Path) -> None:
    before = server.json("status")["policy"]
    with joined(server, tmp_path, "one", seconds=6) as one, joined(server, tmp_path, "two", seconds=6) as two:
        one.policy = two.policy = before
        begun = server.json("round", "run", "--min-nodes", "2", "--deadline", "240", "--no-wait")["round"]
        wait_for(lambda: one.asked > 0, 120)
        flower_process(server, "flower-superlink").kill()
        wait_for(lambda: server.json("round", "show", begun)["state"] in ("released", "failed"), 240)
        ended = server.json("round", "show", begun)
    assert ended["state"] == "released", ended
    assert server.json("status")["flower"]["flower-superlink"] == {"running": True, "restarts": 1}


def test_a_supernode_that_was_killed_in_a_round_comes_back_and_the_round_completes(
    server: LiveServer, tmp_path: Path
) -> None:
    before = server.json("status")["policy"]
    with joined(server, tmp_path, "one", seconds=8) as one, joined(server, tmp_path, "two") as two:
        one.policy = two.policy = before
        with contextlib.ExitStack() as first:
            victim = first.enter_context(joined(server, tmp_path, "victim", seconds=8))
            victim.policy = before
            begun = server.json("round", "run", "--min-nodes", "3", "--deadline", "400", "--no-wait")["round"]
            wait_for(lambda: victim.asked > 0, 120)
        socket, key = tmp_path / "victim.sock", tmp_path / "victim.flower.key"
        with victim.daemon(socket), supernode(tmp_path, "again", server, key, socket):
            wait_for(lambda: server.json("round", "show", begun)["state"] in ("released", "failed"), 400)
            ended = server.json("round", "show", begun)
    assert ended["state"] == "released", ended
    assert len(ended["updates"]) == 3


def test_a_revoked_node_is_shut_out_everywhere_at_once(server: LiveServer, tmp_path: Path) -> None:
    with joined(server, tmp_path, "gone") as device:
        server.json("node", "revoke", device.node, "--reason", "test")
        path = "/v1/policies/latest"
        with httpx.Client(verify=str(server.ca), base_url=f"https://127.0.0.1:{server.port}") as http:
            answer = http.get(path, headers=device.headers("GET", path))
        assert answer.status_code == 403
        assert "token" in answer.json()["error"]["do_next"]
        log = tmp_path / "gone.supernode.log"
        wait_for(lambda: "terminated gracefully" in log.read_text(), 60)


def test_a_supernode_with_an_unenrolled_key_is_told_what_to_do(server: LiveServer, tmp_path: Path) -> None:
    stranger = FakeDevice("stranger")
    key = stranger.write_flower_key(tmp_path)
    with supernode(tmp_path, "stranger", server, key, tmp_path / "none.sock") as log:
        wait_for(lambda: "Exit Code: 305" in log.read_text(), 60)
    assert "not registered here" in log.read_text()
    assert "fedaigc-edge join" in log.read_text()


def test_enrolments_and_policies_are_in_the_ledger_once(server: LiveServer) -> None:
    token = (server.root / "officer" / "officer.token").read_text().strip()
    officer = json.loads((server.root / "officer" / "officer.json").read_text())
    headers = {"authorization": f"Bearer {token}"}
    url = str(json.loads((server.data / "run" / "admin.json").read_text())["url"])
    size = httpx.get(f"{url}/v1/officer/checkpoint", headers=headers).json()["size"]
    entries = []
    for index in range(size):
        found = httpx.get(f"{url}/v1/officer/entries/{index}", headers=headers).json()
        entries.append(check_receipt(found["receipt"], officer["log_vkey"]).entry)
    nodes = server.json("node", "list")["nodes"]
    assert sorted(entry.node or "" for entry in entries if entry.kind == "enrolment") == sorted(
        node["node"] for node in nodes
    )
    versions = [entry.body["version"] for entry in entries if entry.kind == "policy"]
    assert versions == list(range(1, server.json("status")["policy"] + 1))
    updates = [(entry.body["round"], entry.node) for entry in entries if entry.kind == "update"]
    assert len(updates) == len(set(updates)) >= 2 * len(versions)


def test_a_damaged_flower_database_is_set_aside_and_joined_devices_are_let_in_again(
    server: LiveServer, tmp_path: Path
) -> None:
    before = server.json("status")["policy"]
    database, log = server.data / "flower" / "superlink.db", server.data / "logs" / "server.log"
    with joined(server, tmp_path, "one") as one, joined(server, tmp_path, "two") as two:
        one.policy = two.policy = before
        flower_process(server, "flower-superlink").suspend()
        database.with_name("superlink.db-wal").unlink(missing_ok=True)
        database.write_bytes(b"junk" * 4096)
        flower_process(server, "flower-superlink").kill()
        # The registry is told to Flower again; until then SuperNodes are sent away, and daemons restart them.
        wait_for(lambda: "event=reconciled" in log.read_text().rpartition("superlink_db_damaged")[2], 60)
    with contextlib.ExitStack() as again:
        for device in (one, two):
            socket = tmp_path / f"{device.name}.sock"
            again.enter_context(device.daemon(socket))
            key = tmp_path / f"{device.name}.flower.key"
            again.enter_context(supernode(tmp_path, f"{device.name}-again", server, key, socket))
        ended = server.json("round", "run", "--min-nodes", "2", "--deadline", "240")
    assert ended["state"] == "released", ended
    (aside,) = database.parent.glob("superlink.db.damaged-*Z")
    assert aside.read_bytes()[:4] == b"junk"
    assert {path.stat().st_mode & 0o777 for path in database.parent.glob("superlink.db*")} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in log.parent.iterdir()} == {0o600}


def test_the_server_stops_in_order_and_leaves_no_process(server: LiveServer) -> None:
    assert server.stop() == 0
    assert not (server.data / "run" / "admin.json").exists()
    gone = server.run("status", check=False)
    assert gone.returncode == 15
    assert "fedaigc-server start" in gone.stderr
    server.start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("after_s", [0.4, 1.0, 2.0, 3.5])
def test_a_stop_while_it_starts_is_obeyed_at_once_and_leaves_no_process(
    tmp_path: Path, after_s: float, number: int
) -> None:
    server = LiveServer(tmp_path, free_port())
    server.launch()
    assert server.process is not None
    time.sleep(after_s)
    server.process.send_signal(number)
    assert server.process.wait(20) == 0
    assert end_leftovers(server.data) == 0
    assert "Traceback" not in (tmp_path / "server.out").read_text()
