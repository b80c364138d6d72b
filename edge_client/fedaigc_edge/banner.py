"""What a person sees when the device is ready."""

from __future__ import annotations

from collections.abc import Mapping

from fedaigc.canonical import Json


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
