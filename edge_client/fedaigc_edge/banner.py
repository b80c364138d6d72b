"""What is printed when the device is ready: a panel for a person, or one line for a program."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from fedaigc.canonical import Json

LINE_KEYS = (
    "ready", "not_ready", "node", "name", "region", "server", "standing", "api", "model", "policy",
    "epsilon_left",
)  # fmt: skip
"""What of the status a starting program needs."""


def show_banner(status: Mapping[str, Json]) -> None:
    """Print who the device is, where it serves and under which policy, to stderr."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for label, value in (
        ("node", f"{status['node']} ({status['name']})"),
        ("region", status["region"]),
        ("server", status["server"]),
        ("api", f"{status['api']}/v1"),
        ("model", status["model"]),
        ("policy", status["policy"]),
        ("epsilon left", status["epsilon_left"]),
    ):
        table.add_row(label, str(value))
    Console(stderr=True, highlight=False).print(
        Panel(table, title="FedAIGC device", expand=False), markup=False
    )


def show_ready_line(status: Mapping[str, Json]) -> None:
    """Print one line of JSON to stdout; `ready` is false when the server does not let this device serve."""
    click.echo(json.dumps({key: status[key] for key in LINE_KEYS}, ensure_ascii=False))
