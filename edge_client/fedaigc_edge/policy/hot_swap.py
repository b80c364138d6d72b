"""Change the policy while answers are being written: load the new one, lead new requests to it, drain the
old one.

An answer leases the policy that was in force when it began and keeps it to its last token, so no answer is
ever mixed. An adapter is unloaded when its last lease has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedaigc.errors import Busy
from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.serve.generator import AdapterHost

BASE = PolicyVersion(0)
DRAIN_S = 30.0
"""How long a swap waits for old answers; after that the old adapter stays loaded until its last one ends."""


@dataclass(frozen=True)
class PolicyInForce:
    """A policy version and the name under which its adapter is loaded; None is the base model."""

    version: PolicyVersion
    adapter_name: str | None


class _Loaded:
    """A policy with its count of leases; guarded by ActivePolicy's lock."""

    def __init__(self, policy: PolicyInForce) -> None:
        self.policy = policy
        self.leases = 0


class ActivePolicy:
    """The policy in force on this device; every method may be called from any thread.

    Args:
        host: loads and unloads adapters; unloading raises Busy while an answer uses one.
        clock: monotonic seconds.
    """

    def __init__(self, host: AdapterHost, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._clock = clock
        self._swapping = threading.Lock()
        self._changed = threading.Condition()
        self._current = _Loaded(PolicyInForce(BASE, None))
        self._retired: list[_Loaded] = []
        self._loads = 0

    @property
    def current(self) -> PolicyInForce:
        """What a request that starts now will use."""
        with self._changed:
            return self._current.policy

    @property
    def resident(self) -> int:
        """How many adapters are loaded now, the current one included."""
        with self._changed:
            everything = [self._current, *self._retired]
            return sum(item.policy.adapter_name is not None for item in everything)

    @contextmanager
    def lease(self) -> Iterator[PolicyInForce]:
        """Pin the current policy for one whole answer."""
        with self._changed:
            held = self._current
            held.leases += 1
        try:
            yield held.policy
        finally:
            with self._changed:
                held.leases -= 1
                self._changed.notify_all()
            self._unload_idle()

    def swap(self, version: PolicyVersion, adapter: Path | None, drain_s: float = DRAIN_S) -> float:
        """Put `version` in force; returns the milliseconds from start until new requests use it.

        Then waits up to `drain_s` for old answers, and unloads what nothing uses. Raises ModelError when the
        adapter cannot be loaded; the old policy then stays in force. One swap runs at a time.
        """
        with self._swapping:
            started = self._clock()
            name = self._load(version, adapter)
            with self._changed:
                old, self._current = self._current, _Loaded(PolicyInForce(version, name))
                if old.policy.adapter_name is not None:
                    self._retired.append(old)
            milliseconds = (self._clock() - started) * 1000.0
            with self._changed:
                self._changed.wait_for(lambda: old.leases == 0 or old not in self._retired, timeout=drain_s)
            self._unload_idle()
        return milliseconds

    def _load(self, version: PolicyVersion, adapter: Path | None) -> str | None:
        if adapter is None:
            return None
        # A version can be loaded a second time while its first load drains, so the number alone is no name.
        self._loads += 1
        name = f"policy-{version}-{self._loads}"
        self._host.load_adapter(name, adapter)
        return name

    def _unload_idle(self) -> None:
        with self._changed:
            idle = [item for item in self._retired if item.leases == 0]
            self._retired = [item for item in self._retired if item.leases > 0]
        busy = [item for item in idle if not self._unload(item.policy.adapter_name or "")]
        with self._changed:
            self._retired += busy

    def _unload(self, name: str) -> bool:
        """Whether it is loaded no more; an answer's state may outlive its lease by a moment."""
        try:
            self._host.unload_adapter(name)
        except Busy:
            return False
        return True
