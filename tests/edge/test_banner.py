"""The banner tells what a person needs to use the device."""

from __future__ import annotations

import pytest

from fedaigc_edge.banner import show_banner
from tests.edge.commands.running_daemon import STATUS


def test_it_names_node_region_address_policy_and_what_privacy_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_banner(STATUS)
    shown = capsys.readouterr()
    for part in (STATUS["node"], "eu-west", "http://127.0.0.1:8080/v1", "1.5"):
        assert part in shown.err
    assert shown.out == ""
