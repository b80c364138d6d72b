from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fedaigc.arrays import FloatArray
from fedaigc.errors import Busy, ModelError
from fedaigc_edge.engine.adapter_shelf import AdapterShelf
from fedaigc_edge.model.lora_layout import LoraPair

PAIRS = (LoraPair("0.a", "0.b", 10, 15, ()),)
SIZE = 4 * (10 + 15)
"""Bytes of an adapter of rank 1."""


class Files:
    """Adapter files in memory: file "7.3" holds rank 3 arrays full of sevens."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.fails = False
        self.gate = threading.Event()
        self.gate.set()

    def read(self, path: Path) -> Mapping[str, FloatArray]:
        self.reads.append(path.name)
        self.gate.wait(30)
        if self.fails:
            raise ModelError("The file is damaged")
        value, rank = map(int, path.name.split("."))
        a = np.full((10, rank), value, np.float32)
        return {"0.a": a, "0.b": np.full((rank, 15), value, np.float32)}


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def shelf(files: Files) -> AdapterShelf:
    """Room for ten adapters of rank 1: one goes out when a ninth comes, and comes back below 7.5."""
    return AdapterShelf(10 * SIZE, PAIRS, files.read)


def filled(shelf: AdapterShelf, count: int, rank: int = 1) -> None:
    for number in range(1, count + 1):
        shelf.load(f"n{number}", Path(f"{number}.{rank}"))


def value(shelf: AdapterShelf, name: str | None) -> float:
    return float(shelf.stacked([name])["0.a"][0, 0, 0])


def test_above_85_percent_the_least_recently_used_goes_out(shelf: AdapterShelf) -> None:
    filled(shelf, 8)
    with shelf.lease("n1"):
        pass
    assert len(shelf.resident()) == 8
    shelf.load("n9", Path("9.1"))
    assert shelf.resident() == ("n3", "n4", "n5", "n6", "n7", "n8", "n1", "n9")


def test_an_adapter_that_went_out_comes_back_when_asked_for(shelf: AdapterShelf, files: Files) -> None:
    filled(shelf, 9)
    assert "n1" not in shelf.resident() and value(shelf, "n1") == 0.0
    with shelf.lease("n1"):
        assert value(shelf, "n1") == 1.0
        # It came back below 75 %: one other had to go.
        assert len(shelf.resident()) == 8 and "n2" not in shelf.resident()
    assert files.reads.count("1.1") == 2


def test_below_75_percent_it_comes_back_and_nothing_goes_out(files: Files) -> None:
    shelf = AdapterShelf(10 * SIZE, PAIRS, files.read)
    filled(shelf, 9)
    for number in (2, 3):
        shelf.unload(f"n{number}")
    before = set(shelf.resident())
    with shelf.lease("n1"):
        assert set(shelf.resident()) == before | {"n1"}


def test_neither_a_leased_nor_the_pinned_adapter_goes_out(shelf: AdapterShelf) -> None:
    filled(shelf, 8)
    shelf.acquire("n1")
    shelf.pin("n2")
    shelf.load("n9", Path("9.1"))
    assert {"n1", "n2"} <= set(shelf.resident()) and "n3" not in shelf.resident()
    shelf.pin("n9")
    shelf.load("n10", Path("10.1"))
    assert "n2" not in shelf.resident()


def test_when_everything_is_in_use_what_went_out_has_to_wait(shelf: AdapterShelf) -> None:
    filled(shelf, 9)
    for number in range(2, 10):
        shelf.acquire(f"n{number}")
    with pytest.raises(Busy):
        shelf.acquire("n1")
    shelf.release("n5")
    with shelf.lease("n1"):
        assert "n5" not in shelf.resident()


def test_an_adapter_for_which_there_is_no_memory_is_refused_and_nothing_goes_out(shelf: AdapterShelf) -> None:
    filled(shelf, 7)
    for number in range(1, 7):
        shelf.acquire(f"n{number}")
    before = shelf.resident()
    with pytest.raises(ModelError, match="no memory"):
        shelf.load("big", Path("1.5"))
    assert shelf.resident() == before
    shelf.load("fits", Path("1.4"))
    assert "n7" not in shelf.resident() and shelf.used_bytes == 10 * SIZE


def test_running_answers_keep_their_adapters_and_the_surplus_goes_when_they_end(shelf: AdapterShelf) -> None:
    filled(shelf, 8)
    for number in range(1, 9):
        shelf.acquire(f"n{number}")
    shelf.load("n9", Path("9.1"))
    shelf.acquire("n9")
    assert len(shelf.resident()) == 9
    shelf.release("n4")
    assert "n4" not in shelf.resident() and len(shelf.resident()) == 8


def test_memory_that_something_else_fills_counts_too(files: Files) -> None:
    used = [0]
    shelf = AdapterShelf(10 * SIZE, PAIRS, files.read, lambda: used[0])
    filled(shelf, 3)
    used[0] = 10 * SIZE
    shelf.relieve()
    # 10 are used and 8.5 allowed: two of one each must go.
    assert shelf.resident() == ("n3",)


def test_an_adapter_in_use_is_not_unloaded_and_an_unknown_one_is_nothing(shelf: AdapterShelf) -> None:
    filled(shelf, 1)
    with shelf.lease("n1"), pytest.raises(Busy):
        shelf.unload("n1")
    shelf.unload("n1")
    shelf.unload("n1")
    assert shelf.resident() == () and shelf.used_bytes == 0


def test_a_name_is_loaded_once_and_leased_only_while_loaded(shelf: AdapterShelf) -> None:
    filled(shelf, 1)
    with pytest.raises(ModelError, match="loaded already"):
        shelf.load("n1", Path("2.1"))
    with pytest.raises(ModelError, match="No adapter"):
        shelf.acquire("n2")
    with pytest.raises(ModelError, match="not leased"):
        shelf.release("n1")


def test_a_file_that_is_damaged_on_the_way_back_leaves_no_lease(shelf: AdapterShelf, files: Files) -> None:
    filled(shelf, 9)
    files.fails = True
    with pytest.raises(ModelError, match="damaged"):
        shelf.acquire("n1")
    shelf.unload("n1")


def test_one_adapter_for_all_rows_is_not_copied(shelf: AdapterShelf) -> None:
    filled(shelf, 2)
    alone = shelf.stacked(["n1"])
    assert shelf.stacked(["n1", "n1", "n1"]) is alone and alone["0.a"].shape == (1, 10, 1)
    assert shelf.stacked([None, None]) is shelf.stacked([])
    assert not shelf.stacked([None])["0.b"].any()


def test_rows_of_several_adapters_are_stacked_with_shorter_ranks_filled(shelf: AdapterShelf) -> None:
    shelf.load("short", Path("2.1"))
    shelf.load("long", Path("3.3"))
    stacked = shelf.stacked(["short", None, "long", "gone"])
    assert stacked["0.a"].shape == (4, 10, 3) and stacked["0.b"].shape == (4, 3, 15)
    products = [stacked["0.a"][row] @ stacked["0.b"][row] for row in range(4)]
    assert [float(product[0, 0]) for product in products] == [4.0, 0.0, 27.0, 0.0]
    assert shelf.stacked(["short", None, "long", "gone"]) is stacked


def test_nothing_waits_while_a_file_is_read(shelf: AdapterShelf, files: Files) -> None:
    filled(shelf, 1)
    files.gate.clear()
    thread = threading.Thread(target=shelf.load, args=("n2", Path("2.1")))
    thread.start()
    while len(files.reads) < 2:
        time.sleep(0.001)
    with shelf.lease("n1"):
        assert value(shelf, "n1") == 1.0
    shelf.unload("n1")
    assert shelf.resident() == ()
    files.gate.set()
    thread.join()
    assert shelf.resident() == ("n2",)


def test_threads_that_load_lease_and_unload_never_lose_an_adapter_in_use(files: Files) -> None:
    shelf = AdapterShelf(4 * SIZE, PAIRS, files.read)
    faults: list[str] = []
    stop = threading.Event()
    for number in range(1, 7):
        shelf.load(f"n{number}", Path(f"{number}.1"))

    def stream(seed: int) -> None:
        dice = random.Random(seed)
        while not stop.is_set():
            number = dice.randrange(1, 7)
            try:
                with shelf.lease(f"n{number}"):
                    time.sleep(dice.random() / 2000)
                    with shelf._lock:
                        inputs = shelf._entries[f"n{number}"].inputs
                    if inputs is None or inputs["0.a"][0, 0, 0] != number:
                        faults.append(f"n{number} was lost")
            except (Busy, ModelError):
                continue

    def replace(seed: int) -> None:
        dice = random.Random(seed)
        while not stop.is_set():
            number = dice.randrange(1, 7)
            try:
                shelf.unload(f"n{number}")
                shelf.load(f"n{number}", Path(f"{number}.1"))
            except (Busy, ModelError):
                continue

    threads = [
        threading.Thread(target=work, args=(n,)) for n, work in enumerate([stream] * 4 + [replace] * 2)
    ]
    for thread in threads:
        thread.start()
    dice = random.Random(9)
    for _ in range(500):
        batch = [dice.choice([None, "n1", "n2"]) for _ in range(3)]
        stacked = shelf.stacked(batch)
        for row, name in enumerate(batch):
            got = stacked["0.a"][row if stacked["0.a"].shape[0] > 1 else 0, 0, 0]
            # A row that nobody leases is zero once its adapter is out.
            if got not in (0.0, float((name or "n0")[1:])):
                faults.append(f"{name} has the value {got}")
        time.sleep(0.0005)
    stop.set()
    for thread in threads:
        thread.join()
    assert not faults
    assert all(not entry.leases for entry in shelf._entries.values())
