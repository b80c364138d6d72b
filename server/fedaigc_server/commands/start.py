"""`fedaigc-server start`: run the datacenter side in the foreground."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedaigc_server.commands.options import data_option

if TYPE_CHECKING:
    from fedaigc_server.service import Ready
    from fedaigc_server.settings import ServerSettings

FOLDER = click.Path(path_type=Path)


@click.command()
@data_option
@click.option("--officer", type=FOLDER, help="The officer's folder.  [default: ~/.fedaigc/officer]")
@click.option("--host", help="Address of the public TLS port.  [default: 0.0.0.0]")
@click.option("--port", type=int, help="Public TLS port, 0 takes a free one.  [default: 8443]")
@click.option("--admin-port", type=int, help="Admin port on loopback, 0 takes a free one.  [default: 8444]")
@click.option(
    "--public-name",
    "public_names",
    multiple=True,
    help="Name or address by which devices reach us; repeatable, kept for later starts.",
)
@click.option("--config", type=FOLDER, help="Settings file (TOML); see configs/server.toml.")
@click.option(
    "--tap", type=FOLDER, help="For auditors: copy all that devices send, and our answers, to this folder."
)
@click.option("--verbose", is_flag=True, help="Log to stderr too; the log file is DATA/logs/server.log.")
def start(config: Path | None, tap: Path | None, verbose: bool, **flags: Any) -> None:
    """Start the server: CA and keys on first start, then Flower, the admin port and the public TLS port.

    Stop it with Ctrl-C or SIGTERM, also while it starts. After a crash the same command brings everything
    back, even a running round. Another --public-name renews the TLS certificate and keeps the CA; devices
    that joined by the former name still get in.

    \b
    Example:
      fedaigc-server start --public-name dc.example.org
      fedaigc-server start --data /srv/fedaigc --port 8443 --officer /mnt/officer

    \b
    Exit codes: 0 stopped as asked, 2 settings, 3 files or another server on the folder, 4 keys,
    10 the stored ledger does not check, 16 a port is taken or Flower does not start.
    """
    from fedaigc.stop_signals import STOPPED, ended_by_signals

    with ended_by_signals(STOPPED):
        _run(_settings(config, flags), tap.expanduser().absolute() if tap else None, verbose)


def _run(settings: ServerSettings, tap: Path | None, verbose: bool) -> None:
    import asyncio

    from fedaigc.files import PRIVATE_FOLDER
    from fedaigc_server.logs import start_logging
    from fedaigc_server.service import run_service

    # For what libraries open by themselves: log files and their turned ones, SQLite's journals.
    os.umask(0o777 & ~PRIVATE_FOLDER)
    start_logging(settings.data / "logs", verbose)
    asyncio.run(run_service(settings, tap, _banner(settings, tap)))


def _settings(config: Path | None, flags: dict[str, Any]) -> ServerSettings:
    from fedaigc.errors import SettingsError
    from fedaigc.settings import load_settings
    from fedaigc_server.settings import ServerSettings

    given = {name: value for name, value in flags.items() if value not in (None, ())}
    try:
        settings = dataclasses.replace(load_settings(ServerSettings, config), **given)
    except ValueError as error:
        raise SettingsError(
            "A setting is out of range", str(error), "see: fedaigc-server start --help"
        ) from error
    # Children have their own working folder.
    folders = {name: getattr(settings, name).expanduser().absolute() for name in ("data", "officer")}
    return dataclasses.replace(settings, **folders)


def _banner(settings: ServerSettings, tap: Path | None) -> Any:
    def show(ready: Ready) -> None:
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
        console.print(f"[bold]FedAIGC server[/bold]  data {settings.data}")
        console.print(f"  devices reach   https://{ready.address}")
        console.print(f"  admin           {ready.admin_url}  (loopback only)")
        console.print(f"  CA SHA-256      {ready.ca_sha256}")
        console.print(f"  ledger key      {ready.log_vkey}")
        console.print(f"  officer folder  {settings.officer}  (keep it apart from this machine)")
        if tap:
            console.print(
                f"  [bold red]tap[/bold red]             every request and answer is copied to {tap}"
            )
        where = "" if "~" in str(settings.data) else f" --data {settings.data}"
        console.print(f"  next            fedaigc-server token create{where}")
        console.print("[green]ready[/green]")

    return show
