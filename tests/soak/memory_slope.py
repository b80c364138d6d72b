"""Whether a process grows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import psutil


def rss_mb(pid: int | None = None) -> float:
    """Resident memory of a process (default: this one), 10^6 bytes."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def growth_mb(samples: Sequence[float]) -> float:
    """By how much the memory of equally spaced samples grew over the whole, by Theil-Sen: the median of all
    pairs' slopes, which a few outliers do not move. The first quarter is left out as warm-up."""
    kept = np.asarray(samples[len(samples) // 4 :], np.float64)
    first, second = np.triu_indices(len(kept), 1)
    return float(np.median((kept[second] - kept[first]) / (second - first)) * len(kept))
