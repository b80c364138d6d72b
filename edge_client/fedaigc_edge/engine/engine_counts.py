"""What the engine has done, as numbers for /metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class EngineCounts:
    """Totals since the start; written by the engine's thread, read by any."""

    steps: int = 0
    step_rows: int = 0
    """Slots computed in decode steps, idle ones between busy ones included."""
    written: int = 0
    """Tokens of answers."""
    prefilled: int = 0
    """Prompt tokens computed."""
    reused: int = 0
    """Prompt tokens found in a slot."""
    copied: int = 0
    """Of these, tokens copied from another slot."""
    drafted: int = 0
    accepted: int = 0
    failed: int = 0
