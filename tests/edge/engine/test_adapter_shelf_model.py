from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedaigc.errors import Busy, ModelError
from fedaigc_edge.engine.adapter_shelf import AdapterShelf
from tests.edge.engine.test_adapter_shelf import PAIRS, SIZE, Files, value

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])


class ShelfMachine(RuleBasedStateMachine):
    """The shelf against what its docstring says, kept as plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.files = Files()
        self.shelf = AdapterShelf(10 * SIZE, PAIRS, self.files.read)
        self.ranks: dict[str, int] = {}
        self.inside: list[str] = []
        """In memory, least recently used first."""
        self.leases: dict[str, int] = {}
        self.pinned: str | None = None

    def used(self) -> int:
        return sum(self.ranks[name] for name in self.inside)

    def goes_out(self, most: float, spare: str = "") -> None:
        for name in list(self.inside):
            if self.used() <= most:
                return
            if not self.leases[name] and name not in (spare, self.pinned):
                self.inside.remove(name)

    def idle(self) -> int:
        return sum(self.ranks[n] for n in self.inside if not self.leases[n] and n != self.pinned)

    @rule(name=NAMES, rank=st.integers(1, 6))
    def load(self, name: str, rank: int) -> None:
        if name in self.ranks or self.used() - self.idle() + rank > 10:
            with pytest.raises(ModelError):
                self.shelf.load(name, Path(f"{rank}.{rank}"))
            return
        self.shelf.load(name, Path(f"{rank}.{rank}"))
        self.ranks[name], self.leases[name] = rank, 0
        self.inside.append(name)
        self.goes_out(8.5, name)

    @rule(name=NAMES)
    def unload(self, name: str) -> None:
        if self.leases.get(name):
            with pytest.raises(Busy):
                self.shelf.unload(name)
            return
        self.shelf.unload(name)
        self.ranks.pop(name, None)
        self.leases.pop(name, None)
        self.inside = [each for each in self.inside if each != name]
        self.pinned = None if self.pinned == name else self.pinned

    @rule(name=NAMES)
    def acquire(self, name: str) -> None:
        if name not in self.ranks:
            with pytest.raises(ModelError):
                self.shelf.acquire(name)
            return
        back = name not in self.inside
        if back and self.used() >= 7.5:
            self.goes_out(7.5, name)
            if self.used() >= 7.5:
                with pytest.raises(Busy):
                    self.shelf.acquire(name)
                return
        self.shelf.acquire(name)
        self.leases[name] += 1
        self.inside = [each for each in self.inside if each != name] + [name]
        if back:
            self.goes_out(8.5, name)

    @precondition(lambda self: any(self.leases.values()))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(name for name, count in self.leases.items() if count)))
        self.shelf.release(name)
        self.leases[name] -= 1
        self.inside = [each for each in self.inside if each != name] + [name]
        self.goes_out(8.5)

    @rule(name=st.none() | NAMES)
    def pin(self, name: str | None) -> None:
        self.shelf.pin(name)
        self.pinned = name

    @invariant()
    def agrees(self) -> None:
        assert self.shelf.resident() == tuple(self.inside)
        assert self.shelf.used_bytes == self.used() * SIZE
        assert all(name in self.inside for name, count in self.leases.items() if count)
        for name in self.inside:
            assert value(self.shelf, name) == self.ranks[name]


ShelfMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestShelfAgainstItsModel = ShelfMachine.TestCase
