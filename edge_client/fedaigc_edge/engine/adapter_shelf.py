"""The adapters that are in memory, by name, and what a batch's rows need of them.

Memory is bounded: above 85 % of the limit the least recently used adapter that nobody leases is put out, and
comes back from its file when it is asked for and less than 75 % are used. The gap keeps one adapter from
going out and in at every request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedaigc.arrays import FloatArray
from fedaigc.errors import Busy, ModelError
from fedaigc_edge.engine.adapter_rows import AdapterRows, Inputs, bytes_of, checked_inputs, no_adapter
from fedaigc_edge.model.lora_layout import LoraPair

EVICT_ABOVE = 0.85
RELOAD_BELOW = 0.75


@dataclass
class _Entry:
    """One adapter; `inputs` is None while it is out of memory. Guarded by the shelf's lock."""

    path: Path
    bytes: int
    inputs: Inputs | None
    leases: int = 0
    used_at: int = 0


class AdapterShelf:
    """Adapters by name. `stacked` belongs to one thread, everything else to any; no file is read under the
    lock, so none of them waits for another's load.

    Args:
        limit_bytes: of memory.
        pairs: the graph's adapter inputs.
        read: an adapter file's arrays by input name, (1, ., .) or two-dimensional. Raises ModelError.
        used_bytes: what counts against the limit; without it, the shelf's own arrays.
    """

    def __init__(
        self,
        limit_bytes: int,
        pairs: Sequence[LoraPair],
        read: Callable[[Path], Mapping[str, FloatArray]],
        used_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._limit = limit_bytes
        self._pairs = tuple(pairs)
        self._read_file = read
        self._used_bytes = used_bytes
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._pinned: str | None = None
        self._uses = 0
        self._none = no_adapter(self._pairs)
        self._rows = AdapterRows(self._none)

    def load(self, name: str, path: Path) -> None:
        """Read an adapter under a new name.

        Raises ModelError when the name is taken, the file does not fit the graph, or memory has no room even
        without everything that is idle.
        """
        inputs = self._read(path)
        needed = bytes_of(inputs)
        with self._lock:
            if name in self._entries:
                raise ModelError(f"An adapter {name} is loaded already", "", "unload it first")
            idle = sum(self._entries[other].bytes for other in self._idle(name))
            if self._used() - idle + needed > self._limit:
                raise ModelError(
                    f"There is no memory for the adapter {name}",
                    f"it takes {needed} bytes of {self._limit}, and the others are in use",
                    "raise the memory for adapters",
                )
            entry = self._entries[name] = _Entry(path, needed, inputs)
            self._touch(entry)
            self._evict(self._limit * EVICT_ABOVE, spare=name)

    def unload(self, name: str) -> None:
        """Forget an adapter; nothing happens when there is none. Raises Busy while it is leased."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and entry.leases:
                raise Busy(f"The adapter {name} is in use", "an answer needs it", "try again")
            self._entries.pop(name, None)
            if self._pinned == name:
                self._pinned = None

    def pin(self, name: str | None) -> None:
        """Never put this adapter out (the one in force); None pins nothing. It may be loaded later."""
        with self._lock:
            self._pinned = name

    def resident(self) -> tuple[str, ...]:
        """The adapters in memory, the least recently used first."""
        with self._lock:
            names = [name for name, entry in self._entries.items() if entry.inputs is not None]
            return tuple(sorted(names, key=lambda name: self._entries[name].used_at))

    def acquire(self, name: str) -> None:
        """Hold an adapter in memory until `release`; reads its file again when it was put out.

        Raises ModelError for a name that is not loaded, Busy when memory has no room now.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                raise ModelError(f"No adapter {name} is loaded", "it was unloaded", "ask again")
            if entry.inputs is None:
                self._make_room(name)
            # Counted before the file is read, so that nobody unloads it meanwhile.
            entry.leases += 1
            self._touch(entry)
            missing = entry.inputs is None
        if missing:
            self._bring_back(name, entry)

    def release(self, name: str) -> None:
        """Give back what `acquire` took."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or not entry.leases:
                raise ModelError(f"The adapter {name} is not leased", "it was given back twice", "")
            entry.leases -= 1
            self._touch(entry)
            self._evict(self._limit * EVICT_ABOVE)

    @contextmanager
    def lease(self, name: str) -> Iterator[None]:
        """`acquire` and `release` around a block."""
        self.acquire(name)
        try:
            yield
        finally:
            self.release(name)

    def stacked(self, names: Sequence[str | None]) -> Mapping[str, FloatArray]:
        """The graph's adapter inputs for a batch whose rows have these adapters, None the base model.

        One adapter for all rows gives its own (1, ., .) arrays; several give (rows, ., .) arrays, shorter
        ranks filled with zeros, that the next call may write into. Whoever reads a row's result must have
        leased its adapter: a row whose adapter is not in memory gets zeros, as the base model does.
        """
        with self._lock:
            found = {name: self._inputs(name) for name in names}
        kinds = list(found.values()) or [self._none]
        if all(inputs is kinds[0] for inputs in kinds):
            return kinds[0]
        return self._rows.stacked([found[name] for name in names])

    def relieve(self) -> None:
        """Put out what is idle while more than 85 % are used; for when something else filled the memory."""
        with self._lock:
            self._evict(self._limit * EVICT_ABOVE)

    @property
    def used_bytes(self) -> int:
        """What counts against the limit now."""
        with self._lock:
            return self._used()

    def _read(self, path: Path) -> Inputs:
        return checked_inputs(self._read_file(path), self._pairs)

    def _bring_back(self, name: str, entry: _Entry) -> None:
        try:
            inputs = self._read(entry.path)
        except BaseException:
            with self._lock:
                entry.leases -= 1
            raise
        with self._lock:
            # Another thread may have been faster; its arrays may be in use already.
            entry.inputs = entry.inputs or inputs
            self._evict(self._limit * EVICT_ABOVE, spare=name)

    def _inputs(self, name: str | None) -> Inputs:
        entry = self._entries.get(name) if name is not None else None
        return self._none if entry is None or entry.inputs is None else entry.inputs

    def _touch(self, entry: _Entry) -> None:
        self._uses += 1
        entry.used_at = self._uses

    def _used(self) -> int:
        if self._used_bytes is not None:
            return self._used_bytes()
        held = sum(entry.bytes for entry in self._entries.values() if entry.inputs is not None)
        return held + self._rows.bytes

    def _make_room(self, name: str) -> None:
        if self._used() >= self._limit * RELOAD_BELOW:
            left = self._evict(self._limit * RELOAD_BELOW, spare=name)
            if left >= self._limit * RELOAD_BELOW:
                raise Busy(
                    f"There is no memory for the adapter {name} now", "the others are in use", "try again"
                )

    def _evict(self, most: float, spare: str = "") -> float:
        """Put idle adapters out until no more than `most` bytes are used; returns how many are."""
        used = self._used()
        for name in self._idle(spare):
            if used <= most:
                break
            entry = self._entries[name]
            used -= entry.bytes
            entry.inputs = None
        return used

    def _idle(self, spare: str) -> list[str]:
        idle = [
            name
            for name, entry in self._entries.items()
            if entry.inputs is not None and not entry.leases and name not in (spare, self._pinned)
        ]
        return sorted(idle, key=lambda name: self._entries[name].used_at)
