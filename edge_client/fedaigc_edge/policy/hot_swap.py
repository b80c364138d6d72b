"""Change the policy while answers are being written: load the new one, lead new requests to it, keep a few
earlier ones for callers that name them, drain the rest.

An answer leases one policy when it begins and keeps it to its last token, so no answer is ever mixed. An
adapter is unloaded when no caller can lease it any more and its last lease has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedaigc.errors import Busy, ModelError, SettingsError
from fedaigc.identifiers import PolicyVersion
from fedaigc.reward_head import RewardHead
from fedaigc_edge.engine.generator import AdapterHost
from fedaigc_edge.serve.request import UnknownModel

BASE = PolicyVersion(0)
DRAIN_S = 30.0
"""How long a swap waits for old answers; after that the old adapter stays loaded until its last one ends."""
EARLIER_VERSIONS = 2
"""Versions that stay resident beside the one in force: enough to go back once, and to try one out."""
MAX_EARLIER_VERSIONS = 64


@dataclass(frozen=True)
class PolicyInForce:
    """A policy version, the name under which its adapter is loaded (None is the base model), its head."""

    version: PolicyVersion
    adapter_name: str | None
    head: RewardHead | None = None


class _Resident:
    """A policy with its count of leases; guarded by ActivePolicy's lock."""

    def __init__(self, policy: PolicyInForce) -> None:
        self.policy = policy
        self.leases = 0


class ActivePolicy:
    """The policies resident on this device; every method may be called from any thread.

    `current` and `lease` never wait for a load, an unload or an answer, so an event loop may call them.

    Args:
        host: loads and unloads adapters; unloading raises Busy while an answer uses one.
        clock: monotonic seconds.
        earlier: how many versions stay resident beside the one in force, 0 to 64; the least recently placed
            goes first. Raises SettingsError.
    """

    def __init__(
        self,
        host: AdapterHost,
        clock: Callable[[], float] = time.monotonic,
        earlier: int = EARLIER_VERSIONS,
    ) -> None:
        if not 0 <= earlier <= MAX_EARLIER_VERSIONS:
            raise SettingsError(f"earlier must be 0 to {MAX_EARLIER_VERSIONS} versions", f"it is {earlier}")
        self._host = host
        self._clock = clock
        self._limit = earlier
        # Held while an adapter loads; never taken where answers begin or end.
        self._placing = threading.Lock()
        self._changed = threading.Condition()
        self._current = _Resident(PolicyInForce(BASE, None))
        self._earlier: list[_Resident] = []
        self._retired: list[_Resident] = []
        self._unloading = False
        self._loads = 0

    @property
    def current(self) -> PolicyInForce:
        """What a request that starts now, and names no version, will use."""
        with self._changed:
            return self._current.policy

    @property
    def resident_versions(self) -> tuple[PolicyVersion, ...]:
        """The versions that can be leased now: the one in force, then the most recently placed first."""
        with self._changed:
            return tuple(item.policy.version for item in self._leasable())

    @property
    def resident(self) -> int:
        """How many adapters are loaded now, those that only drain included."""
        with self._changed:
            everything = [*self._leasable(), *self._retired]
            return sum(item.policy.adapter_name is not None for item in everything)

    @contextmanager
    def lease(self, version: PolicyVersion | None = None) -> Iterator[PolicyInForce]:
        """Pin `version`, or the one in force, for one whole answer. Raises UnknownModel: not resident."""
        held = self._take(version)
        try:
            yield held.policy
        finally:
            self._give_back(held)

    def swap(
        self,
        version: PolicyVersion,
        adapter: Path | None,
        head: RewardHead | None = None,
        drain_s: float = DRAIN_S,
    ) -> float:
        """Put `version` in force; returns the milliseconds from start until new requests use it.

        The one before stays resident; what falls out is waited for up to `drain_s`, then unloaded by its
        last answer. Raises ModelError when the adapter cannot be loaded; nothing has changed then. One swap
        runs at a time.
        """
        with self._placing:
            started = self._clock()
            loaded = self._load(version, adapter, head)
            with self._changed:
                before, self._current = self._current, loaded
                fallen = self._place(before)
            milliseconds = (self._clock() - started) * 1000.0
            self._drain(fallen, drain_s)
        return milliseconds

    def keep(self, version: PolicyVersion, adapter: Path | None, head: RewardHead | None = None) -> None:
        """Make `version` resident without putting it in force, to be leased by name (canary).

        It takes the place of the least recently placed. Nothing happens when it is in force. Raises
        ModelError when the adapter cannot be loaded, or no version may be kept.
        """
        if not self._limit:
            raise ModelError("No version can be kept beside the one in force", "", "set `earlier` above 0")
        with self._placing:
            if self.current.version == version:
                return
            loaded = self._load(version, adapter, head)
            with self._changed:
                fallen = self._place(loaded)
            self._drain(fallen, 0.0)

    def _leasable(self) -> list[_Resident]:
        return [self._current, *self._earlier]

    def _take(self, version: PolicyVersion | None) -> _Resident:
        with self._changed:
            for held in self._leasable():
                if version is None or held.policy.version == version:
                    held.leases += 1
                    return held
        raise UnknownModel(
            f"Policy version {version} is not resident on this device",
            "it was never received, or newer ones took its place",
            "leave the version out, or name one that /v1/models lists",
            field="model",
        )

    def _give_back(self, held: _Resident) -> None:
        with self._changed:
            held.leases -= 1
            self._changed.notify_all()
            wanted = not self._unloading and any(not item.leases for item in self._retired)
            self._unloading = self._unloading or wanted
        if wanted:
            # The host may be slow, and this may be an event loop.
            threading.Thread(target=self._unload_later, name="policy-unload", daemon=True).start()

    def _load(self, version: PolicyVersion, adapter: Path | None, head: RewardHead | None) -> _Resident:
        if adapter is None:
            return _Resident(PolicyInForce(version, None, head))
        # A version can be loaded a second time while its first load drains, so the number alone is no name.
        self._loads += 1
        name = f"policy-{version}-{self._loads}"
        self._host.load_adapter(name, adapter)
        return _Resident(PolicyInForce(version, name, head))

    def _place(self, item: _Resident) -> list[_Resident]:
        """Put `item` first among the earlier ones; returns what can be leased no more, now retired."""
        placed: list[_Resident] = []
        fallen: list[_Resident] = []
        versions = {self._current.policy.version}
        for each in (item, *self._earlier):
            fits = len(placed) < self._limit and each.policy.version not in versions
            (placed if fits else fallen).append(each)
            versions.add(each.policy.version)
        self._earlier = placed
        fallen = [each for each in fallen if each.policy.adapter_name is not None]
        self._retired += fallen
        return fallen

    def _drain(self, fallen: list[_Resident], drain_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not any(item.leases for item in fallen), timeout=drain_s)
        self._unload_idle()

    def _unload_later(self) -> None:
        busy: list[_Resident] = []
        while True:
            with self._changed:
                # Decided under the lock: an answer that ends now either is seen here or starts a new thread.
                if all(item.leases or item in busy for item in self._retired):
                    self._unloading = False
                    return
            busy = self._unload_idle()

    def _unload_idle(self) -> list[_Resident]:
        """Unload what nothing leases; returns what the host still uses."""
        with self._changed:
            idle = [item for item in self._retired if not item.leases]
            self._retired = [item for item in self._retired if item.leases]
        busy = [item for item in idle if not self._unload(item.policy.adapter_name or "")]
        with self._changed:
            self._retired += busy
        return busy

    def _unload(self, name: str) -> bool:
        """Whether it is loaded no more; an answer's state may outlive its lease by a moment."""
        try:
            self._host.unload_adapter(name)
        except Busy:
            return False
        return True
