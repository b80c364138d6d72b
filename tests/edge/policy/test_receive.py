from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedaigc.adapter import Adapter
from fedaigc.errors import ModelError, Unavailable, VerificationFailed
from fedaigc.identifiers import PolicyVersion
from fedaigc.signing import PublicKey, SigningKey
from fedaigc_edge.engine.batching_generator import BatchingGenerator, EngineSettings
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.policy.accepted import AcceptedPolicies
from fedaigc_edge.policy.hot_swap import ActivePolicy
from fedaigc_edge.policy.receive import LATEST_PATH, MAX_MISSED_VERSIONS, PolicyChange, PolicyReceiver
from tests.edge.policy.released import Releases
from tests.edge.policy.test_adapter_export import random_adapter
from tests.edge.policy.test_hot_swap import Host
from tests.edge.served_model import answer_text
from tests.house.source_tree import ROOT


class Device:
    """One device with a fake generator; `restart` starts it again on the same folder."""

    def __init__(self, folder: Path, server: Releases, key: PublicKey | None = None) -> None:
        self.folder, self.server = folder, server
        self.key = key or server.key.public
        self.start()

    def start(self) -> None:
        self.host = Host()
        self.active = ActivePolicy(self.host)
        self.receiver = PolicyReceiver(self.folder, self.key, self.server.model, self.active)

    def restart(self) -> PolicyVersion:
        self.start()
        return self.receiver.restore()

    def check(self) -> PolicyChange | None:
        return asyncio.run(self.receiver.check_for_policy(self.server))

    def refuses(self, match: str) -> None:
        before = self.active.current
        with pytest.raises(VerificationFailed, match=match) as refused:
            self.check()
        assert self.active.current == before
        assert self.receiver.problem is refused.value


@pytest.fixture
def server(tiny_model: ModelFolder) -> Releases:
    return Releases(tiny_model)


@pytest.fixture
def device(server: Releases, tmp_path: Path) -> Device:
    return Device(tmp_path / "policy", server)


def test_no_policy_yet_is_no_problem(device: Device) -> None:
    assert device.check() is None and device.receiver.problem is None


def test_a_new_policy_is_verified_kept_and_put_in_force(device: Device, server: Releases) -> None:
    manifest = server.release()
    change = device.check()
    assert change is not None and change.version == 1 and change.milliseconds >= 0
    assert device.active.current.version == 1 and len(device.host.loaded) == 1
    accepted = device.receiver.accepted
    assert accepted is not None and accepted.manifest == manifest
    assert accepted.served.exists()
    assert device.check() is None


def test_a_device_that_missed_versions_walks_the_chain(device: Device, server: Releases) -> None:
    server.release()
    device.check()
    for _ in range(4):
        server.release()
    server.asked.clear()
    change = device.check()
    assert change is not None and change.version == 5
    assert server.asked[:4] == [LATEST_PATH, "/v1/policies/4", "/v1/policies/3", "/v1/policies/2"]


def test_a_restart_puts_the_last_accepted_policy_in_force_again(device: Device, server: Releases) -> None:
    for _ in range(2):
        server.release()
        device.check()
    server.down = True
    assert device.restart() == 2
    assert device.active.current.version == 2 and device.receiver.problem is None
    with pytest.raises(Unavailable):
        device.check()
    assert device.active.current.version == 2


def test_an_older_policy_is_a_downgrade(device: Device, server: Releases) -> None:
    for _ in range(3):
        server.release()
    device.check()
    server.offered = 2
    device.refuses("offers policy 2, but version 3")
    device.restart()
    device.refuses("offers policy 2, but version 3")


def test_a_server_that_lost_its_policies_is_refused(device: Device, server: Releases) -> None:
    server.release()
    device.check()
    server.offered = None
    device.refuses("offers no policy")


def test_another_manifest_under_the_same_number_is_refused(device: Device, server: Releases) -> None:
    manifest = server.release()
    device.check()
    server.offer(dataclasses.replace(manifest, minute=manifest.minute + 1))
    device.refuses("another policy 1")


def test_a_replayed_manifest_under_a_new_number_is_refused(device: Device, server: Releases) -> None:
    server.release()
    device.check()
    server.release()
    server.release()
    server.manifests[2] = server.manifests[1]
    device.refuses("does not continue")


def test_a_broken_chain_is_refused(device: Device, server: Releases) -> None:
    server.release()
    device.check()
    manifest = server.release()
    server.offer(dataclasses.replace(manifest, parent_manifest="00" * 32))
    device.refuses("does not continue")


def test_another_history_signed_by_the_same_key_is_refused(device: Device, server: Releases) -> None:
    server.release(seed=1)
    device.check()
    fork = Releases(server.model, server.key)
    fork.release(seed=99)
    fork.release()
    device.server = fork
    device.refuses("does not continue")


def test_a_hole_in_the_chain_is_refused(device: Device, server: Releases) -> None:
    for _ in range(3):
        server.release()
    del server.manifests[1]
    device.refuses("does not continue")


def test_a_number_far_ahead_is_refused_without_walking(device: Device, server: Releases) -> None:
    manifest = server.release()
    number = MAX_MISSED_VERSIONS + 1
    server.offer(
        dataclasses.replace(
            manifest,
            version=PolicyVersion(number),
            parent=PolicyVersion(number - 1),
            parent_manifest="00" * 32,
        )
    )
    device.refuses("versions ahead")
    assert server.asked == [LATEST_PATH]


def test_another_key_or_a_changed_bit_is_refused(device: Device, server: Releases) -> None:
    manifest = server.release()
    server.offer(manifest, SigningKey.generate())
    device.refuses("signature")
    good = server.offer(manifest)
    server.manifests[1] = good[:-1] + bytes([good[-1] ^ 1])
    with pytest.raises(VerificationFailed):
        device.check()


def test_a_policy_for_another_model_is_refused_before_its_blobs_are_fetched(
    device: Device, server: Releases
) -> None:
    server.release(base_model="00" * 32)
    device.refuses("another base model")
    assert server.asked == [LATEST_PATH]


@pytest.mark.parametrize("part", ["adapter", "head"])
def test_a_blob_with_another_hash_or_none_is_refused_and_nothing_is_kept(
    device: Device, server: Releases, tmp_path: Path, part: str
) -> None:
    digest = getattr(server.release(), part)
    data = server.blobs[digest]
    server.blobs[digest] = data[:-1] + bytes([data[-1] ^ 1])
    device.refuses(f"The {part} of policy 1")
    del server.blobs[digest]
    device.refuses("missing at the server")
    assert list((tmp_path / "policy").iterdir()) == []


def test_an_adapter_of_another_shape_is_refused(device: Device, server: Releases) -> None:
    shape = dataclasses.replace(server.model.shape, alpha=1.0)
    server.release(adapter=Adapter.zero(shape, server.model.base_model))
    device.refuses("another shape")


def test_a_head_for_another_layer_is_refused(device: Device, server: Releases) -> None:
    other = Releases(dataclasses.replace(server.model, head_layer=0), server.key)
    other.release()
    device.server = other
    device.refuses("reward head")


def test_after_a_refusal_the_next_good_policy_comes_through(device: Device, server: Releases) -> None:
    manifest = server.release()
    server.offer(manifest, SigningKey.generate())
    device.refuses("signature")
    server.offer(manifest)
    assert device.check() is not None and device.receiver.problem is None


def test_a_runtime_that_refuses_keeps_the_old_policy_and_is_asked_again(
    device: Device, server: Releases
) -> None:
    server.release()
    device.check()
    server.release()
    device.host.fails = True
    with pytest.raises(ModelError):
        device.check()
    assert device.active.current.version == 1
    device.host.fails = False
    change = device.check()
    assert change is not None and change.version == 2


def test_damaged_files_fall_back_to_the_parent_and_are_fetched_again(
    device: Device, server: Releases, tmp_path: Path
) -> None:
    for _ in range(2):
        server.release()
        device.check()
    (tmp_path / "policy" / "2" / "adapter.safetensors").write_bytes(b"damaged")
    assert device.restart() == 1
    assert isinstance(device.receiver.problem, VerificationFailed)
    change = device.check()
    assert change is not None and change.version == 2 and device.receiver.problem is None
    # Meanwhile nothing older than 2 would have been taken.
    (tmp_path / "policy" / "2" / "manifest").unlink()
    assert device.restart() == 1
    server.offered = 1
    device.refuses("offers policy 1, but version 2")


def test_with_everything_damaged_the_base_model_serves(
    device: Device, server: Releases, tmp_path: Path
) -> None:
    server.release()
    device.check()
    (tmp_path / "policy" / "1" / "head.safetensors").unlink()
    assert device.restart() == 0 and device.receiver.problem is not None


def test_a_policy_written_but_not_accepted_before_a_crash_does_not_count(
    device: Device, server: Releases, tmp_path: Path
) -> None:
    server.release()
    AcceptedPolicies(tmp_path / "policy", server.key.public).keep(server.policy_blobs(1))
    assert device.restart() == 0
    change = device.check()
    assert change is not None and change.version == 1


def test_the_served_file_is_written_anew_from_what_was_signed(
    device: Device, server: Releases, tmp_path: Path
) -> None:
    server.release()
    device.check()
    served = tmp_path / "policy" / "1" / "policy.onnx_adapter"
    good = served.read_bytes()
    served.write_bytes(b"somebody else's adapter")
    assert device.restart() == 1
    assert served.read_bytes() == good


def test_two_checks_at_once_swap_once(device: Device, server: Releases) -> None:
    server.release()

    async def both() -> list[PolicyChange | None]:
        checks = (device.receiver.check_for_policy(server) for _ in range(2))
        return list(await asyncio.gather(*checks))

    changes = asyncio.run(both())
    assert [change is not None for change in changes] == [True, False]


def test_a_received_policy_changes_what_the_runtime_says(tiny_model: ModelFolder, tmp_path: Path) -> None:
    server = Releases(tiny_model)
    server.release(adapter=random_adapter(tiny_model, 1.0))
    generator = BatchingGenerator(tiny_model, EngineSettings(slots=1, threads=1))
    active = ActivePolicy(generator)
    receiver = PolicyReceiver(tmp_path / "policy", server.key.public, tiny_model, active)
    base = answer_text(generator, "the fox", 12)
    change = asyncio.run(receiver.check_for_policy(server))
    assert change is not None
    assert answer_text(generator, "the fox", 12, active.current.adapter_name) != base
    generator.close()


@pytest.mark.slow
def test_killed_at_random_moments_the_device_never_goes_back_and_always_starts(
    tiny_model: ModelFolder, tmp_path: Path
) -> None:
    # The child accepts policy after policy until it is killed; then a device starts on what it left.
    script = tmp_path / "accept.py"
    script.write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from fedaigc.signing import SigningKey\n"
        "from fedaigc_edge.model.store import open_model\n"
        "from tests.edge.policy.released import Releases\n"
        "from tests.edge.policy.test_receive import Device\n"
        "model = open_model(Path(sys.argv[1]), sys.argv[2])\n"
        "server = Releases(model, SigningKey.load(Path(sys.argv[3])))\n"
        "device = Device(Path(sys.argv[4]), server)\n"
        "device.receiver.restore()\n"
        "for number in range(1, 400):\n"
        "    server.release()\n"
        "    if number > int(sys.argv[5]):\n"
        "        device.check()\n"
        "        print(number, flush=True)\n"
    )
    key = SigningKey.generate()
    key.save(tmp_path / "release.key")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'edge_client'}"}
    accepted = 0
    random = np.random.default_rng(4)
    for _ in range(5):
        command = [sys.executable, str(script), str(tiny_model.root.parent), tiny_model.name]
        command += [str(tmp_path / "release.key"), str(tmp_path / "policy"), str(accepted)]
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(float(random.uniform(0.0, 0.4)))
        child.send_signal(signal.SIGKILL)
        lines = [first, *child.stdout.read().split()]
        child.wait()
        said = int([line for line in lines if line.strip()][-1])
        device = Device(tmp_path / "policy", Releases(tiny_model, key))
        restored = device.receiver.restore()
        assert device.receiver.problem is None
        assert restored >= max(said, accepted)
        accepted = restored
    assert accepted > 5
