"""`fedaigc-server round`: learn once from the devices' feedback."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fedaigc.errors import RoundFailed, Unavailable, parts_of
from fedaigc_server.admin.operator_limits import MAX_DEADLINE_S, MAX_NODES
from fedaigc_server.commands.options import (
    ROUND,
    data_folder,
    data_option,
    json_option,
    moment,
    show,
    table,
)

NODES = click.IntRange(1, MAX_NODES)
SECONDS = click.IntRange(1, MAX_DEADLINE_S)
LOOK_EVERY_S = 1.0
OVERTIME_S = 120.0
"""How long after its deadline a round may still average and release."""

ENDED = ("released", "failed")


@click.group("round")
def round_group() -> None:
    """Aggregation rounds."""


@round_group.command()
@data_option
@click.option("--min-nodes", type=NODES, default=2, show_default=True, help="Usable updates that are needed.")
@click.option(
    "--deadline", type=SECONDS, default=900, show_default=True, help="Seconds until the round closes."
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when it has ended.")
@json_option
def run(data: Path | None, min_nodes: int, deadline: int, wait: bool, as_json: bool) -> None:
    """Run one round: ask the devices, train there, average here, release a policy version.

    \b
    Example:
      fedaigc-server round run --min-nodes 2 --deadline 600

    \b
    Exit codes: 0 released (or begun, with --no-wait), 2 a wrong option, 14 the round failed or another one
    runs, 15 the server is not running.
    """
    from fedaigc_server.commands.admin_call import ask_admin

    folder = data_folder(data)
    begun = ask_admin(folder, "POST", "/v1/rounds", {"min_nodes": min_nodes, "deadline_s": deadline})
    if not wait:
        show(begun, as_json, [f"{begun['round']} has begun. See: fedaigc-server round show {begun['round']}"])
        return
    found = _await(folder, begun["round"], deadline, (lambda line: None) if as_json else _progress)
    # The reason of a failure is told once, as the error that the command ends with.
    show(found, as_json, _lines(found, with_reason=False))
    if found["state"] != "released":
        raise _no_policy(found)


@round_group.command("list")
@data_option
@json_option
def list_rounds(data: Path | None, as_json: bool) -> None:
    """List the newest rounds, newest first.

    \b
    Example:
      fedaigc-server round list --json | jq '.rounds[0].state'

    \b
    Exit codes: 0 done, 4 operator token missing, 15 the server is not running.
    """
    from fedaigc_server.commands.admin_call import ask_admin

    found = ask_admin(data_folder(data), "GET", "/v1/rounds")
    rows = [
        (item["round"], item["state"], item["policy"], moment(item["created"]), item["reason"][:60])
        for item in found["rounds"]
    ]
    empty = "There was no round yet. Run one: fedaigc-server round run"
    show(found, as_json, table(rows, ("ROUND", "STATE", "POLICY", "BEGUN", "REASON"), empty))


@round_group.command("show")
@click.argument("round_id", metavar="ROUND", type=ROUND)
@data_option
@json_option
def show_round(round_id: str, data: Path | None, as_json: bool) -> None:
    """Show one round and what became of each invited device.

    \b
    Example:
      fedaigc-server round show r-0123456789abcdef

    \b
    Exit codes: 0 done, 2 no such round, 15 the server is not running.
    """
    from fedaigc_server.commands.admin_call import ask_admin

    found = ask_admin(data_folder(data), "GET", f"/v1/rounds/{round_id}")
    show(found, as_json, _lines(found))


def _progress(line: str) -> None:
    click.echo(f"  {line}", err=True)


def _no_policy(found: dict[str, Any]) -> RoundFailed:
    if found["state"] not in ENDED:
        look = f"look again: fedaigc-server round show {found['round']}"
        return RoundFailed(f"The round {found['round']} has not ended", f"it is {found['state']}", look)
    what, why, do_next = parts_of(found["reason"])
    return RoundFailed(f"The round {found['round']} failed: {what}", why, do_next)


def _await(folder: Path, round_id: str, deadline: int, tell: Callable[[str], None]) -> dict[str, Any]:
    from fedaigc_server.commands.admin_call import ask_admin

    ends, state = time.monotonic() + deadline + OVERTIME_S, ""
    while True:
        try:
            found = ask_admin(folder, "GET", f"/v1/rounds/{round_id}")
        except Unavailable:
            # A server that is being restarted goes on with the round.
            if time.monotonic() > ends:
                raise
            time.sleep(LOOK_EVERY_S)
            continue
        if found["state"] != state:
            state = found["state"]
            tell(f"{round_id} {state}")
        if state in ENDED or time.monotonic() > ends:
            return found
        time.sleep(LOOK_EVERY_S)


def _lines(found: dict[str, Any], with_reason: bool = True) -> list[str]:
    head = f"{found['round']}  {found['state']}"
    if found["policy"]:
        head += f"  policy {found['policy']}"
    lines = [head]
    if found["reason"] and with_reason:
        lines.append(f"  {found['reason']}")
    for update in found["updates"]:
        spent = f"  epsilon {update['epsilon']:.3f}" if update["epsilon"] is not None else ""
        lines.append(f"  {update['node']}  {update['verdict']}{spent}  {update['reason']}".rstrip())
    return lines
