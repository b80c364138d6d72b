"""What serving asks of the policies on the device: which are resident, and a lease on one for an answer."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from fedaigc.identifiers import PolicyVersion
from fedaigc.reward_head import RewardHead


class PolicyInForce(Protocol):
    """One policy version, the adapter that it is loaded under, and its reward head."""

    @property
    def version(self) -> PolicyVersion:
        """Its number; 0 is the base model."""
        ...

    @property
    def adapter_name(self) -> str | None:
        """What the generator knows it by; None for the base model."""
        ...

    @property
    def head(self) -> RewardHead | None:
        """What ranks its answers; None for the base model."""
        ...


class Policies(Protocol):
    """The policies that are loaded; one of them is in force."""

    @property
    def current(self) -> PolicyInForce:
        """The version that a request would meet now if it names none."""
        ...

    @property
    def resident_versions(self) -> tuple[PolicyVersion, ...]:
        """Every version that can be leased now; one of them is in force."""
        ...

    def lease(self, version: PolicyVersion | None = None) -> AbstractContextManager[PolicyInForce]:
        """Pin a version, or the one in force: it stays loaded until the block ends.

        Raises UnknownModel when that version is not resident. Never waits.
        """
        ...
