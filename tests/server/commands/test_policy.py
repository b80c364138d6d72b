from __future__ import annotations

import json

from tests.server.commands.conftest import Run

POLICY = {
    "version": 1, "round": "r-0123456789abcdef", "updates": 2, "epsilon_max": 0.41234,
    "minute": 29_000_000, "adapter": "ab" * 32,
}  # fmt: skip


def test_policies_are_a_table_or_json(run: Run) -> None:
    shown = run({"policies": [POLICY]}, "policy", "list").stdout
    assert "0.412" in shown
    assert "r-0123456789abcdef" in shown
    assert json.loads(run({"policies": [POLICY]}, "policy", "list", "--json").stdout)["policies"] == [POLICY]


def test_an_empty_list_says_how_to_begin(run: Run) -> None:
    assert "fedaigc-server round run" in run({"policies": []}, "policy", "list").stdout
