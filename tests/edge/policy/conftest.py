"""A policy in force over a host that loads nothing."""

from __future__ import annotations

import pytest

from fedaigc_edge.policy.hot_swap import ActivePolicy
from tests.edge.policy.test_hot_swap import Host


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def active(host: Host) -> ActivePolicy:
    """Keeps no earlier version, so that each swap has something to drain."""
    return ActivePolicy(host, earlier=0)
