from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedaigc.errors import Busy, ModelError
from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.engine.batching_generator import BatchingGenerator, EngineSettings
from fedaigc_edge.model.store import ModelFolder, open_model
from fedaigc_edge.policy.adapter_export import export_adapter
from fedaigc_edge.policy.hot_swap import ActivePolicy, PolicyInForce
from tests.edge.policy.test_adapter_export import random_adapter
from tests.edge.served_model import answer_text

FILE = Path("a.onnx_adapter")


class Host:
    """Stands in for the generator: knows what is loaded, and refuses to unload what a test says is in use."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.busy: set[str] = set()
        self.fails = False
        self.lock = threading.Lock()
        self.hanging = threading.Event()
        """Cleared by a test that wants loading and unloading to hang."""
        self.hanging.set()
        self.waiting = 0

    def load_adapter(self, name: str, path: Path) -> None:
        self.hang()
        with self.lock:
            if self.fails or name in self.loaded:
                raise ModelError(f"cannot load {name}")
            self.loaded.add(name)

    def unload_adapter(self, name: str) -> None:
        self.hang()
        with self.lock:
            if name in self.busy:
                raise Busy("in use")
            self.loaded.remove(name)

    def hang(self) -> None:
        with self.lock:
            self.waiting += 1
        self.hanging.wait(30)
        with self.lock:
            self.waiting -= 1


def version(number: int) -> PolicyVersion:
    return PolicyVersion(number)


def until(told: Callable[[], bool]) -> None:
    """Wait for what another thread does soon."""
    for _ in range(5000):
        if told():
            return
        time.sleep(0.001)
    pytest.fail("it never came")


def test_the_base_model_is_in_force_at_first(active: ActivePolicy) -> None:
    assert active.current == PolicyInForce(version(0), None)
    assert active.resident == 0


def test_a_swap_leads_new_requests_to_the_new_policy_and_unloads_the_old(
    active: ActivePolicy, host: Host
) -> None:
    active.swap(version(1), FILE)
    milliseconds = active.swap(version(2), FILE)
    assert active.current.version == 2
    assert host.loaded == {active.current.adapter_name}
    assert milliseconds >= 0


def test_an_answer_keeps_its_policy_to_its_end(active: ActivePolicy, host: Host) -> None:
    active.swap(version(1), FILE)
    with active.lease() as held:
        active.swap(version(2), FILE, drain_s=0.0)
        assert held.version == 1 and held.adapter_name in host.loaded
        assert active.current.version == 2 and active.resident == 2
    until(lambda: held.adapter_name not in host.loaded)
    assert active.resident == 1


def test_a_swap_waits_for_old_answers_but_not_for_ever(active: ActivePolicy) -> None:
    active.swap(version(1), FILE)
    with active.lease():
        began = time.monotonic()
        milliseconds = active.swap(version(2), FILE, drain_s=0.2)
        assert 0.15 < time.monotonic() - began < 5.0
    # The wait is not part of the figure: new requests used the new policy all the time.
    assert milliseconds < 150


def test_a_swap_ends_as_soon_as_the_last_old_answer_does(active: ActivePolicy, host: Host) -> None:
    active.swap(version(1), FILE)
    released = threading.Event()

    def answer() -> None:
        with active.lease():
            released.wait(10)

    thread = threading.Thread(target=answer)
    thread.start()
    while not active._current.leases:
        time.sleep(0.001)
    threading.Timer(0.1, released.set).start()
    began = time.monotonic()
    active.swap(version(2), FILE, drain_s=10.0)
    assert time.monotonic() - began < 5.0
    thread.join()
    assert host.loaded == {active.current.adapter_name}


def test_an_adapter_that_is_still_used_stays_and_is_retried(active: ActivePolicy, host: Host) -> None:
    active.swap(version(1), FILE)
    old = active.current.adapter_name
    assert old is not None
    host.busy.add(old)
    active.swap(version(2), FILE)
    assert old in host.loaded and active.resident == 2
    host.busy.clear()
    with active.lease():
        pass
    until(lambda: old not in host.loaded)
    assert active.resident == 1


def test_a_policy_that_does_not_load_leaves_the_old_one_in_force(active: ActivePolicy, host: Host) -> None:
    active.swap(version(1), FILE)
    host.fails = True
    with pytest.raises(ModelError):
        active.swap(version(2), FILE)
    assert active.current.version == 1 and active.current.adapter_name in host.loaded


def test_the_base_model_can_be_put_back_and_a_version_loaded_twice(active: ActivePolicy, host: Host) -> None:
    active.swap(version(1), FILE)
    with active.lease() as first:
        active.swap(version(0), None, drain_s=0.0)
        active.swap(version(1), FILE)
        assert active.current.adapter_name != first.adapter_name
    until(lambda: host.loaded == {active.current.adapter_name})


def test_an_answer_that_fails_gives_its_lease_back(active: ActivePolicy, host: Host) -> None:
    active.swap(version(1), FILE)
    with pytest.raises(Busy), active.lease():
        raise Busy("a caller's trouble")
    active.swap(version(2), FILE, drain_s=5.0)
    assert host.loaded == {active.current.adapter_name}


def test_300_swaps_under_16_streams_mix_nothing_and_leak_nothing(active: ActivePolicy, host: Host) -> None:
    stop = threading.Event()
    faults: list[str] = []
    answers: list[int] = []

    def stream(seed: int) -> None:
        dice = random.Random(seed)
        while not stop.is_set():
            with active.lease() as policy:
                for _ in range(dice.randrange(1, 5)):
                    name = policy.adapter_name
                    if name is not None and (name not in host.loaded or f"-{policy.version}-" not in name):
                        faults.append(name)
                    time.sleep(dice.random() / 2000)
                answers.append(policy.version)

    threads = [threading.Thread(target=stream, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for number in range(1, 301):
        active.swap(version(number), FILE, drain_s=0.01)
        time.sleep(0.001)
    stop.set()
    for thread in threads:
        thread.join()
    assert not faults and len(answers) > 300
    assert active.current.version == 300
    until(lambda: host.loaded == {active.current.adapter_name})


def test_swaps_while_the_runtime_generates_mix_no_answer(tiny_model: ModelFolder, tmp_path: Path) -> None:
    generator = BatchingGenerator(tiny_model, EngineSettings(slots=4, threads=1))
    files = []
    for seed in (1, 2):
        files.append(tmp_path / f"{seed}.onnx_adapter")
        export_adapter(random_adapter(tiny_model, seed=seed), tiny_model, files[-1])
    active = ActivePolicy(generator, earlier=0)

    def answer(name: str | None) -> str:
        return answer_text(generator, "the quick brown fox", 10, name)

    expected = {0: answer(None)}
    for number, file in enumerate(files):
        generator.load_adapter("probe", file)
        expected[number + 1] = answer("probe")
        generator.unload_adapter("probe")
    assert len(set(expected.values())) == 3
    wrong: list[int] = []
    stop = threading.Event()

    def stream() -> None:
        while not stop.is_set():
            with active.lease() as policy:
                kind = policy.version and (policy.version - 1) % 2 + 1
                if answer(policy.adapter_name) != expected[kind]:
                    wrong.append(policy.version)

    threads = [threading.Thread(target=stream) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, 41):
        active.swap(version(number), files[(number - 1) % 2], drain_s=1.0)
    stop.set()
    for thread in threads:
        thread.join()
    active.swap(version(0), None)
    assert not wrong
    until(lambda: active.resident == 0)
    generator.close()


@pytest.mark.slow
def test_a_swap_of_the_real_model_takes_milliseconds_while_it_answers(models: Path, tmp_path: Path) -> None:
    model = open_model(models, "smollm2-135m")
    generator = BatchingGenerator(model, EngineSettings(threads=1))
    export_adapter(random_adapter(model, 0.05), model, tmp_path / "a.onnx_adapter")
    active = ActivePolicy(generator, earlier=0)
    stop = threading.Event()

    def stream() -> None:
        while not stop.is_set():
            with active.lease() as policy:
                answer_text(generator, "Tell me about the sea.", 32, policy.adapter_name)

    threads = [threading.Thread(target=stream) for _ in range(2)]
    for thread in threads:
        thread.start()
    times = sorted(active.swap(version(n), tmp_path / "a.onnx_adapter") for n in range(1, 21))
    stop.set()
    for thread in threads:
        thread.join()
    generator.close()
    print(f"hot swap ms: median {times[10]:.3f}, worst {times[-1]:.3f}")
    assert times[10] < 500
