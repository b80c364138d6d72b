from __future__ import annotations

import json

from tests.server.commands.conftest import Run

STATUS = {
    "version": "0.1.0", "uptime_s": 5, "public": "dc.example.org:8443", "ledger_size": 7, "policy": 1,
    "nodes": {"active": 2, "pending": 0, "revoked": 1}, "rounds_running": [],
    "flower": {
        "flower-superlink": {"running": True, "restarts": 0},
        "flower-superexec": {"running": False, "restarts": 3},
    },
}  # fmt: skip


def test_the_status_names_what_is_down(run: Run) -> None:
    shown = run(STATUS, "status").stdout
    assert "2 active, 0 pending, 1 revoked" in shown
    assert "flower-superexec  DOWN, 3 restarts" in shown
    assert json.loads(run(STATUS, "status", "--json").stdout) == STATUS
