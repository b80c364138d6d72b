"""`fedaigc-edge run`: start a device that has joined."""

from __future__ import annotations

import os
from pathlib import Path

import click

from fedaigc.stop_signals import INTERRUPTED, ended_by_signals
from fedaigc_edge.commands.join import pull_model, serve
from fedaigc_edge.commands.options import device_options, ready_json_option, settings_of
from fedaigc_edge.settings import config_file


@click.command()
@device_options
@click.option("--pull", is_flag=True, help="Fetch and export the model first when it is missing.")
@ready_json_option
def run(
    data: Path | None,
    config: Path | None,
    models: Path | None,
    model: str | None,
    port: int | None,
    gate: Path | None,
    pull: bool,
    as_json: bool,
) -> None:
    """Start a device that has joined, and serve until stopped (SIGTERM or Ctrl-C).

    \b
    Example:
      fedaigc-edge run --data /var/lib/fedaigc/edge --port 8080
      fedaigc-edge run --port 0 --json | head -1 | jq -r .api

    \b
    Exit codes: 0 stopped as asked, 2 settings or port taken, 3 files, 4 not joined, 9 model missing,
    16 a child process failed, 130 stopped while it fetched the model.
    """
    settings = settings_of(config, data=data, models=models, model=model, port=port, gate=gate)
    if pull:
        with ended_by_signals(INTERRUPTED):
            pull_model(settings, as_json)
    serve(settings, as_json, config_file(os.environ, config))
