"""`fedaigc-server status`: how this server is."""

from __future__ import annotations

from pathlib import Path

import click

from fedaigc_server.commands.options import data_folder, data_option, json_option, show


@click.command()
@data_option
@json_option
def status(data: Path | None, as_json: bool) -> None:
    """Show whether the server runs, who is in, how long the ledger is, and how Flower does.

    \b
    Example:
      fedaigc-server status --json | jq .ledger_size

    \b
    Exit codes: 0 it runs, 4 operator token missing, 15 it does not run.
    """
    from fedaigc_server.commands.admin_call import ask_admin

    found = ask_admin(data_folder(data), "GET", "/v1/status")
    nodes, flower = found["nodes"], found["flower"]
    lines = [
        f"fedaigc-server {found['version']}, up {found['uptime_s']} s, devices reach https://{found['public']}",
        f"  nodes    {nodes['active']} active, {nodes['pending']} pending, {nodes['revoked']} revoked",
        f"  ledger   {found['ledger_size']} entries",
        f"  policy   {found['policy']}",
        f"  rounds   {', '.join(found['rounds_running']) or 'none running'}",
        *(
            f"  {name}  {'running' if state['running'] else 'DOWN'}, {state['restarts']} restarts"
            for name, state in flower.items()
        ),
    ]
    show(found, as_json, lines)
