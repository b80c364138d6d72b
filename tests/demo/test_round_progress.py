"""The lines say how many devices have trained and what the others do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.daemons import StoryFailed
from tests.demo import round_progress as module
from tests.demo.round_progress import stages_line, step_line, watch_round
from tests.fleet import Edge, Server


def _round(state: str, done: int, invited: int = 2) -> dict[str, Any]:
    return {"round": "r-1", "state": state, "invited": ["n"] * invited, "updates": [{}] * done}


def test_a_step_counts_the_devices_that_are_done() -> None:
    assert step_line(_round("training", 1)) == "training: 1 of 2 devices trained"
    assert step_line(_round("querying", 0, invited=0)) == "querying"


def test_the_stages_name_each_busy_device() -> None:
    stages = {
        "edge-1": {"stage": "adapter", "done": 3, "total": 40},
        "edge-2": {"stage": "loading", "done": 0, "total": 1},
        "edge-3": None,
    }
    assert stages_line(stages) == "edge-1 adapter 3/40, edge-2 loading"


def test_each_step_is_printed_once_and_the_ended_round_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = [_round("querying", 0, 0), _round("training", 0), _round("training", 0), _round("training", 1)]
    rounds.append(_round("released", 2))
    monkeypatch.setattr(module, "ask_admin", lambda *asked: rounds.pop(0))
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(Server, "running", lambda server: None)
    out = io.StringIO()
    edges = [Edge("edge-1", tmp_path, tmp_path)]
    found = watch_round(Console(file=out), Server(tmp_path), edges, "r-1", 60)
    assert found["state"] == "released"
    assert [line.split(" (")[0].strip() for line in out.getvalue().splitlines() if line.strip()] == [
        "querying",
        "training: 0 of 2 devices trained",
        "training: 1 of 2 devices trained",
    ]


def test_a_round_that_does_not_end_stops_the_demo(tmp_path: Path) -> None:
    with pytest.raises(StoryFailed, match="has not ended"):
        watch_round(Console(file=io.StringIO()), Server(tmp_path), [], "r-1", 0)
