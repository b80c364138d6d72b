"""What the devices do while a round runs: a moving line for a terminal, and one line a step for a log."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from fedaigc.errors import FedaigcError
from fedaigc_edge.commands.daemon_call import ask_daemon
from fedaigc_server.commands.admin_call import ask_admin
from tests.daemons import StoryFailed
from tests.fleet import Edge, Server

LOOK_EVERY_S = 1.0
ENDED = ("released", "failed")


def watch_round(
    console: Console, server: Server, edges: Sequence[Edge], round_id: str, seconds: float
) -> dict[str, Any]:
    """Show the round's progress until it has ended; returns it. Raises StoryFailed when time is up."""
    started, told = time.monotonic(), ""
    with console.status("the round begins") as status:
        while (passed := time.monotonic() - started) < seconds:
            server.running()
            # Asked in this process: a command a second would take the training's processor time.
            found = ask_admin(server.data, "GET", f"/v1/rounds/{round_id}")
            if found["state"] in ENDED:
                return found
            step = step_line(found)
            if step != told:
                told = step
                console.print(f"  {step} ({passed:.0f} s)")
            status.update(
                f"{step}, {passed:.0f} s  {stages_line({edge.name: _stage(edge) for edge in edges})}"
            )
            time.sleep(LOOK_EVERY_S)
    raise StoryFailed(f"round {round_id} has not ended after {seconds:.0f} s")


def step_line(found: Mapping[str, Any]) -> str:
    """The round's state, and of the invited devices how many are done."""
    invited = len(found["invited"])
    return (
        f"{found['state']}: {len(found['updates'])} of {invited} devices trained"
        if invited
        else found["state"]
    )


def stages_line(stages: Mapping[str, Mapping[str, Any] | None]) -> str:
    """What each device's trainer does: `edge-1 adapter 3/40, edge-2 loading`; idle devices are left out."""
    busy = {name: stage for name, stage in stages.items() if stage is not None}
    return ", ".join(
        f"{name} {stage['stage']}" + (f" {stage['done']}/{stage['total']}" if stage["total"] > 1 else "")
        for name, stage in busy.items()
    )


def _stage(edge: Edge) -> dict[str, Any] | None:
    try:
        stage: dict[str, Any] | None = ask_daemon(edge.data, "GET", "/status/full")["round"]
    except FedaigcError:
        return None
    return stage
