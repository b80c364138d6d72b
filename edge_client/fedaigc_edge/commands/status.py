"""`fedaigc-edge status`: how this device is."""

from __future__ import annotations

import json
from pathlib import Path

import click

from fedaigc.errors import Unavailable
from fedaigc_edge.commands.options import data_options, settings_of


@click.command()
@data_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def status(data: Path | None, config: Path | None, as_json: bool) -> None:
    """Show who this device is, whether it serves, and what it owes and knows.

    \b
    Example:
      fedaigc-edge status --json | jq .policy

    \b
    Exit codes: 0 the daemon runs, 4 not joined, 15 joined but not running.
    """
    from fedaigc_edge.commands.daemon_call import ask_daemon
    from fedaigc_edge.status import resting_status, status_lines

    folder = settings_of(config, data=data).data
    stopped: Unavailable | None = None
    try:
        found = ask_daemon(folder, "GET", "/status/full")
    except Unavailable as error:
        found, stopped = resting_status(folder), error
    click.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(status_lines(found)))
    if stopped is not None:
        raise stopped
