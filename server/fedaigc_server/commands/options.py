"""The options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DATA = "~/.fedaigc/server"
DATA_VARIABLE = "FEDAIGC_SERVER_DATA"


def data_option(command: F) -> F:
    """`--data`: which server is meant."""
    return click.option(
        "--data",
        type=click.Path(path_type=Path),
        envvar=DATA_VARIABLE,
        help=f"The server's data folder, also {DATA_VARIABLE}.  [default: {DEFAULT_DATA}]",
    )(command)


def json_option(command: F) -> F:
    """`--json`: one JSON object on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")(command)


def data_folder(data: Path | None) -> Path:
    """The folder that is meant, absolute."""
    return (data or Path(DEFAULT_DATA)).expanduser().absolute()


def show(found: dict[str, Any], as_json: bool, lines: Sequence[str]) -> None:
    """Print the object, or the lines that say the same to a reader."""
    click.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(lines))


def table(rows: Sequence[Sequence[object]], head: Sequence[str], empty: str) -> list[str]:
    """Aligned columns under a heading, or one line that says that there is nothing."""
    if not rows:
        return [empty]
    cells = [list(head), *[["-" if cell is None else str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def moment(seconds: int | None) -> str:
    """Unix seconds as local date and time."""
    from datetime import datetime

    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S") if seconds else "-"
