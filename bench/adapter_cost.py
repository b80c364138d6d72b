"""What an active adapter costs: the same answers with and without one, in turn, in one engine."""

from __future__ import annotations

from pathlib import Path


def adapter_cost(models: Path, model: str, folder: Path, rounds: int) -> float | None:
    """The share of decode speed that an adapter takes."""
    return None
