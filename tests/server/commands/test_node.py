from __future__ import annotations

import json

import pytest

from tests.server.commands.conftest import Asked, Run

NODE = {
    "node": "n-0123456789abcdef", "name": "laptop", "region": "eu", "standing": "active",
    "last_seen": None, "policy": 2,
}  # fmt: skip


def test_nodes_are_a_table_or_json(run: Run) -> None:
    shown = run({"nodes": [NODE]}, "node", "list").stdout
    assert "laptop" in shown
    assert "STANDING" in shown
    assert json.loads(run({"nodes": [NODE]}, "node", "list", "--json").stdout) == {"nodes": [NODE]}


def test_an_empty_list_says_how_to_begin(run: Run) -> None:
    assert "fedaigc-server token create" in run({"nodes": []}, "node", "list").stdout


def test_revoking_sends_the_reason(run: Run, asked: Asked) -> None:
    answer = {"node": NODE["node"], "standing": "revoked"}
    result = run(answer, "node", "revoke", str(NODE["node"]), "--reason", "stolen")
    assert asked == [("POST", "/v1/nodes/n-0123456789abcdef/revoke", {"reason": "stolen"})]
    assert "is revoked" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "hint"), [(("../status",), "node list"), ((str(NODE["node"]), "--reason", ""), "1 to 300")]
)
def test_a_wrong_option_is_refused_before_anything_is_asked(
    run: Run, asked: Asked, arguments: tuple[str, ...], hint: str
) -> None:
    result = run({}, "node", "revoke", *arguments)
    assert result.exit_code == 2
    assert hint in result.stderr
    assert asked == []
