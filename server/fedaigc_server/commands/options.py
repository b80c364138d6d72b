"""The options that several commands share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from fedaigc.errors import VerificationFailed
from fedaigc.identifiers import node_id, round_id

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DATA = "~/.fedaigc/server"
DATA_VARIABLE = "FEDAIGC_SERVER_DATA"


class ShortText(click.types.StringParamType):
    """Printable text of 1 to `limit` characters."""

    name = "text"

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is, or a usage error that names the limit."""
        text = str(super().convert(value, param, ctx))
        if not 1 <= len(text) <= self._limit or not text.isprintable():
            self.fail(f"it must be 1 to {self._limit} printable characters", param, ctx)
        return text


class FiniteRange(click.FloatRange):
    """A range that not-a-number is outside of: it passes every comparison."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or a usage error that names the range."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}", param, ctx)
        return number


class Name(click.types.StringParamType):
    """The name of a node or round, checked before anything is asked."""

    def __init__(self, kind: str, check: Callable[[str], str]) -> None:
        self.name = kind
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is, or a usage error that says where names are listed."""
        try:
            return self._check(str(super().convert(value, param, ctx)))
        except VerificationFailed as error:
            self.fail(f"{value!r} is no {self.name}: {error.why}; {error.do_next}", param, ctx)


NODE = Name("node", node_id)
ROUND = Name("round", round_id)


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
