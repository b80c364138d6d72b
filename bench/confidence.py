"""How far a mean may be from the truth: bootstrap over what was measured independently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

DRAWS = 2000
SEED = 20261201
SHARE = 0.95


def interval(
    values: Sequence[float], statistic: Callable[[npt.NDArray[np.float64]], float]
) -> tuple[float, float]:
    """The percentile interval of `statistic` over `values`, drawn again with replacement; never random."""
    array = np.asarray(values, np.float64)
    random = np.random.default_rng(SEED)
    drawn = [statistic(array[random.integers(0, len(array), len(array))]) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return float(low), float(high)
