"""`fedaigc-edge model`: pull, export and list the models of this machine."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from fedaigc_edge.model.architecture import ADAPTED, TARGETS
from fedaigc_edge.model.served_graph import PRECISIONS
from fedaigc_edge.model.store import ModelFolder, list_models
from fedaigc_edge.settings import DEFAULT_MODELS

MODELS_VARIABLE = "FEDAIGC_MODELS"


def _models_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--models",
        "models_dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=lambda: os.environ.get(MODELS_VARIABLE, DEFAULT_MODELS),
        show_default=DEFAULT_MODELS,
        help=f"The model store (or the variable {MODELS_VARIABLE}).",
    )(command)


def _json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


@click.group()
def model() -> None:
    """Fetch and export models.

    \b
    Example:
      fedaigc-edge model pull smollm2-135m
      fedaigc-edge model export smollm2-135m
    """


@model.command()
@click.argument("source")
@click.option("--name", help="Name in the store; default: the known name or the path's stem.")
@_models_option
@_json_option
def pull(source: str, name: str | None, models_dir: Path, as_json: bool) -> None:
    """Fetch SOURCE: a known name, a Hugging Face folder or a .gguf file of the Llama and Qwen families.

    \b
    Example:
      fedaigc-edge model pull smollm2-135m
      fedaigc-edge model pull ~/models/Qwen3-0.6B --name qwen3
    """
    from fedaigc_edge.model.pull import pull as pull_model

    with _steps() as progress:
        pulled = pull_model(source, models_dir.expanduser(), progress, name)
    said = "pulled" if pulled.fetched else "already here"
    _say(
        as_json,
        {"name": pulled.name, "family": pulled.family, "fetched": pulled.fetched},
        f"{pulled.name} ({pulled.family}) {said}. Next: fedaigc-edge model export {pulled.name}",
    )


@model.command()
@click.argument("name")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default=None,
    help="Of the served weights; default: q41-exact for a GGUF file of Q4_1 and Q8_0, else int8.",
)
@click.option(
    "--lora-layers", type=click.IntRange(1), default=4, show_default=True, help="Last layers that adapt."
)
@click.option("--rank", type=click.IntRange(1, 256), default=8, show_default=True, help="Rank of adapters.")
@click.option("--alpha", type=float, default=16.0, show_default=True, help="Scale of adapters: alpha / rank.")
@click.option(
    "--targets",
    default=",".join(ADAPTED),
    show_default=True,
    help=f"What adapters change: some of {', '.join(TARGETS)}, with commas.",
)
@click.option(
    "--head-layer",
    type=click.IntRange(1),
    default=None,
    help="Layer that the reward head reads; default: two thirds up.",
)
@_models_option
@_json_option
def export(
    name: str,
    precision: str | None,
    lora_layers: int,
    rank: int,
    alpha: float,
    targets: str,
    head_layer: int | None,
    models_dir: Path,
    as_json: bool,
) -> None:
    """Export NAME for serving, with inputs for adapters, and check that it says what the source says.

    All devices of one federation need the same options: they are part of the model's hash.

    \b
    Example:
      fedaigc-edge model export smollm2-135m
    """
    from fedaigc_edge.model.export import ExportPlan
    from fedaigc_edge.model.export import export as export_model

    with _steps() as progress:
        chosen = tuple(part.strip() for part in targets.split(","))
        plan = ExportPlan(precision or "", lora_layers, rank, alpha, chosen, head_layer or 0)
        exported = export_model(name, models_dir.expanduser(), progress, plan)
    _say(as_json, _summary(exported), f"{name} is exported. BLAKE3 {exported.base_model}")


@model.command("list")
@_models_option
@_json_option
def list_command(models_dir: Path, as_json: bool) -> None:
    """List the models of this machine.

    \b
    Example:
      fedaigc-edge model list --json
    """
    rows = list_models(models_dir)
    lines = [
        f"{row['name']:24} {row['state']:9} {row['bytes'] / 1e6:8.0f} MB  {(row['base_model'] or '-')[:16]}"
        for row in rows
    ]
    _say(as_json, rows, "\n".join(lines) or "No models yet. Next: fedaigc-edge model pull smollm2-135m")


def _summary(exported: ModelFolder) -> dict[str, Any]:
    return {
        "name": exported.name,
        "base_model": exported.base_model,
        "slots": [slot.name for slot in exported.shape.slots],
        "rank": exported.shape.rank,
        "precision": exported.export.get("plan", {}).get("precision"),
        "head_layer": exported.head_layer,
        "parity": exported.export.get("parity"),
    }


def _say(as_json: bool, value: object, text: str) -> None:
    click.echo(json.dumps(value) if as_json else text)


@contextmanager
def _steps() -> Iterator[Callable[[str], None]]:
    """Show each step with its time on stderr: one live line on a terminal, one line a step elsewhere."""
    if not sys.stderr.isatty():
        yield lambda step: click.echo(f"{step} ...", err=True)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console
    ) as bar:
        task: Any = None
        began = time.monotonic()

        def step(text: str) -> None:
            nonlocal task
            if task is not None:
                bar.update(task, total=1, completed=1)
            task = bar.add_task(text, total=None)

        yield step
        if task is not None:
            bar.update(task, total=1, completed=1)
        console.print(f"done in {time.monotonic() - began:.0f} s")
