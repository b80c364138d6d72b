"""`make bench-precision`: what each precision costs and gives, and which of them are worth having.

Quality is measured on prose that every Python brings along, against the fp32 export; speed in one process,
the exports in turn, on one core. Exports are made once and kept.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.command import BenchOptions, bench_main, say
from bench.confidence import interval
from bench.core_pinning import bench_core, on_cores
from bench.failure import BenchFailed
from bench.pareto import Variant, front
from bench.precision_model import DECODE_CONTEXT, PrecisionModel, Said
from bench.prose import WINDOW, windows
from bench.run_manifest import run_manifest
from bench.table import show
from fedaigc.errors import ModelError
from fedaigc_edge.engine.huge_pages import use_huge_pages
from fedaigc_edge.model.export import ExportPlan, export
from fedaigc_edge.model.served_graph import PRECISIONS, check_precision
from fedaigc_edge.model.store import HF, SOURCE, ModelFolder

REFERENCE, BASE = "fp32", "int4"
"""Quality is measured against the one, speed against the other."""
Interval = tuple[float, float]


@dataclass(frozen=True)
class Amount:
    """How much is measured: windows of `tokens` tokens, and rounds of `decoded` tokens each."""

    windows: int
    tokens: int
    rounds: int
    decoded: int


FULL, QUICK = Amount(16, 512, 15, 32), Amount(8, 256, 5, 16)


@dataclass(frozen=True)
class Quality:
    """Of one export, each figure with its 95 % interval; agreement and cosine are with the fp32 export."""

    perplexity: float
    perplexity_95: Interval
    top1: float
    top1_95: Interval
    hidden_cosine: float


def measure(options: BenchOptions) -> dict[str, Any]:
    """The table, then the figures with the run's manifest. Raises BenchFailed."""
    amount = QUICK if options.quick else FULL
    texts = windows(options.model_root, amount.windows * amount.tokens // WINDOW)
    texts = texts.reshape(amount.windows, amount.tokens)
    exports = _exports(options)
    with on_cores({bench_core()}):
        models = {name: PrecisionModel(model, amount.tokens) for name, model in exports.items()}
        use_huge_pages()  # as the engine does
        say(f"quality: {amount.windows} windows of {amount.tokens} tokens")
        quality = _quality(models, texts)
        say(f"speed: {amount.rounds} rounds of {amount.decoded} tokens, the exports in turn")
        seconds = _rounds(models, amount)
    ratios = {name: _paired(seconds[BASE], mine) for name, mine in seconds.items()}
    variants = [
        Variant(name, one.size_mb, statistics.median(ratios[name]), quality[name].perplexity)
        for name, one in models.items()
    ]
    kept = [one.name for one in front(variants)]
    results = {
        one.name: _result(one, models[one.name], quality[one.name], ratios[one.name]) for one in variants
    }
    _show(results, kept)
    return {
        "manifest": run_manifest(exports[REFERENCE], DECODE_CONTEXT, threads=1),
        "text": {"windows": amount.windows, "tokens": amount.tokens},
        "base_models": {name: model.base_model for name, model in exports.items()},
        "precisions": results,
        "pareto": kept,
    }


def _exports(options: BenchOptions) -> dict[str, ModelFolder]:
    """Every precision that the source allows, exported under the bench folder."""
    found = {}
    for precision in PRECISIONS:
        try:
            check_precision(options.model_root / SOURCE, precision)
        except ModelError as error:
            say(f"left out: {precision}. {error.why}")
            continue
        store = options.bench / "precision" / precision
        root = store / options.model
        root.mkdir(parents=True, exist_ok=True)
        for part in (SOURCE, HF):
            if not (root / part).exists():
                (root / part).symlink_to(options.model_root / part)
        say(f"export: {precision} (once; then kept)")
        try:
            found[precision] = export(options.model, store, lambda step: None, ExportPlan(precision))
        except ModelError as error:
            raise BenchFailed(f"{precision} cannot be exported: {error}") from error
    return found


def _quality(models: Mapping[str, PrecisionModel], texts: Any) -> dict[str, Quality]:
    said: dict[str, list[Said]] = {name: [] for name in models}
    for text in texts:
        for name, model in models.items():
            said[name].append(model.read(text))
    return {name: _judged(mine, said[REFERENCE]) for name, mine in said.items()}


def _judged(mine: Sequence[Said], reference: Sequence[Said]) -> Quality:
    losses = [float(one.losses.mean()) for one in mine]
    agreed = [float((one.top == other.top).mean()) for one, other in zip(mine, reference, strict=True)]
    cosines = [_cosine(one, other) for one, other in zip(mine, reference, strict=True)]
    return Quality(
        perplexity=float(np.exp(np.mean(losses))),
        perplexity_95=interval(losses, lambda drawn: float(np.exp(drawn.mean()))),
        top1=float(np.mean(agreed)),
        top1_95=interval(agreed, lambda drawn: float(drawn.mean())),
        hidden_cosine=float(np.mean(cosines)),
    )


def _cosine(one: Said, other: Said) -> float:
    lengths = np.linalg.norm(one.hidden, axis=-1) * np.linalg.norm(other.hidden, axis=-1)
    return float(((one.hidden * other.hidden).sum(-1) / lengths).mean())


def _rounds(models: Mapping[str, PrecisionModel], amount: Amount) -> dict[str, list[float]]:
    names = list(models)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(amount.rounds + 1):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            took = models[name].decode_s(amount.decoded)
            if turn:  # the first round warms up
                seconds[name].append(took)
    return seconds


def _paired(base: Sequence[float], mine: Sequence[float]) -> list[float]:
    """How many times as fast, round by round."""
    return [theirs / ours for theirs, ours in zip(base, mine, strict=True)]


def _result(one: Variant, model: PrecisionModel, quality: Quality, ratios: Sequence[float]) -> dict[str, Any]:
    return {
        "size_mb": round(one.size_mb, 1),
        "loaded_mb": round(model.loaded_mb, 1),
        f"decode_vs_{BASE}": round(one.decode, 3),
        f"decode_vs_{BASE}_95": _rounded(interval(ratios, lambda drawn: float(np.median(drawn)))),
        "perplexity": round(quality.perplexity, 4),
        "perplexity_95": _rounded(quality.perplexity_95),
        "top1": round(quality.top1, 4),
        "top1_95": _rounded(quality.top1_95),
        "hidden_cosine": round(quality.hidden_cosine, 5),
    }


def _rounded(pair: Interval) -> list[float]:
    return [round(value, 4) for value in pair]


def _show(results: Mapping[str, Mapping[str, Any]], kept: Sequence[str]) -> None:
    heads = (
        "precision",
        "MB",
        f"decode / {BASE}",
        "95 %",
        "perplexity",
        "95 %",
        "top-1",
        "95 %",
        "cosine",
        "front",
    )
    rows = []
    for name, one in results.items():
        figures = (one["size_mb"], one[f"decode_vs_{BASE}"], one[f"decode_vs_{BASE}_95"])
        quality = (one["perplexity"], one["perplexity_95"], one["top1"], one["top1_95"], one["hidden_cosine"])
        rows.append((name, *map(_cell, (*figures, *quality)), "yes" if name in kept else "-"))
    show("Precisions of one model, one core, one caller", heads, rows)


def _cell(value: float | list[float]) -> str:
    return "..".join(f"{part:.4g}" for part in value) if isinstance(value, list) else f"{value:.5g}"


if __name__ == "__main__":
    sys.exit(bench_main("bench-precision", measure))
