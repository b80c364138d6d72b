"""The banner tells what a person needs to use the device."""

from __future__ import annotations

import json

import pytest

from fedaigc_edge.banner import show_banner, show_ready_line
from tests.edge.commands.running_daemon import STATUS


def test_it_names_node_region_address_policy_and_what_privacy_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_banner(STATUS)
    shown = capsys.readouterr()
    for part in (STATUS["node"], "eu-west", "http://127.0.0.1:8080/v1", "1.5"):
        assert part in shown.err
    assert shown.out == ""


def test_the_ready_line_is_one_json_object_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    show_ready_line(STATUS)
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.count("\n") == 1
    found = json.loads(shown.out)
    assert (found["ready"], found["node"], found["api"]) == (True, STATUS["node"], STATUS["api"])
