"""The options that several commands share, and how they become settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from fedaigc_edge.settings import EdgeSettings, edge_settings

F = TypeVar("F", bound=Callable[..., Any])

_FLAG_KEYS = {
    "data": "data",
    "models": "models",
    "model": "model",
    "name": "name",
    "port": "serve.port",
    "gate": "serve.gate",
}


def data_options(command: F) -> F:
    """`--data` and `--config`: which device is meant."""
    command = click.option(
        "--config", type=click.Path(path_type=Path), help="Settings file (TOML); see configs/edge.toml."
    )(command)
    return click.option(
        "--data", type=click.Path(path_type=Path), help="The device's folder.  [default: ~/.fedaigc/edge]"
    )(command)


def device_options(command: F) -> F:
    """Everything that shapes a running device."""
    for option in (
        click.option("--port", type=int, help="Local API port, 0 takes a free one.  [default: 8080]"),
        click.option("--gate", type=click.Path(path_type=Path), help="The gate's rules (YAML)."),
        click.option("--model", help="Name of an exported model.  [default: smollm2-135m]"),
        click.option(
            "--models", type=click.Path(path_type=Path), help="Model folder.  [default: ~/.fedaigc/models]"
        ),
    ):
        command = option(command)
    return data_options(command)


def ready_json_option(command: F) -> F:
    """`--json` of a command that goes on serving."""
    return click.option(
        "--json", "as_json", is_flag=True, help="One JSON line on stdout when ready; an error too is JSON."
    )(command)


def settings_of(config: Path | None, **flags: Any) -> EdgeSettings:
    """Flags over environment over file over defaults, with a data folder that is absolute."""
    known = {_FLAG_KEYS[name]: _absolute(value) for name, value in flags.items()}
    settings = edge_settings(known, os.environ, config)
    return replace(settings, data=settings.data.absolute(), models=settings.models.absolute())


def _absolute(value: Any) -> Any:
    # The daemon's children have another working folder.
    return value.expanduser().absolute() if isinstance(value, Path) else value
