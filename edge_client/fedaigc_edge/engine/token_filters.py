"""Which tokens stay likely enough, and which one a uniform number falls on; arrays only, no state.

A vocabulary has up to 150,000 tokens and a token is chosen in a fraction of a millisecond, so nothing here
sorts more than the few tokens that can matter, and every shortcut is exact.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedaigc.arrays import FloatArray

Ids = npt.NDArray[np.int64]

_FEW = 1024
"""So many numbers are sorted without thought."""
_BLOCK = 128
_LIKELY = (np.float32(2**-13), np.float32(2**-20), np.float32(0))
"""Parts of the likeliest token's probability: most nuclei lie above the first, all above the last."""


def largest(logits: FloatArray, count: int) -> Ids:
    """Ids, ascending, of the `count` largest logits and of all that tie with the last of them.

    Logits of -inf are never among them.
    """
    if count >= logits.size:
        return np.flatnonzero(logits > -np.inf)
    ids = np.flatnonzero(logits >= _lower_bound(logits, count))
    if ids.size > count:
        values = logits[ids]
        ids = ids[values >= np.partition(values, ids.size - count)[ids.size - count]]
    return ids[logits[ids] > -np.inf]


def best_first(logits: FloatArray, count: int) -> Ids:
    """Ids of the `count` largest logits above -inf, best first, of equal ones the lower id first."""
    ids = largest(logits, count)
    return ids[np.argsort(-logits[ids], kind="stable")][:count]


def nucleus(weights: FloatArray, share: float) -> Ids:
    """Positions, ascending, of the fewest largest weights that hold `share` of their sum (Holtzman et al.).

    At least one; of equal weights the lower position goes first. Weights are in [0, 1] and the largest is 1.
    """
    target = share * float(weights.sum())
    for least in _LIKELY:
        candidates = np.flatnonzero(weights > least)
        all_values = weights[candidates]
        if all_values.sum() >= target:
            break
    values, above = all_values, 0.0
    while values.size > _FEW:
        # The bits of positive floats are in their order: of a thousand drawers one holds the border.
        bits = values.view(np.int32)
        lowest = bits.min()
        span = int(bits.max() - lowest)
        if span == 0:
            break
        drawers = (bits - lowest) >> max(0, span.bit_length() - 10)
        held = above + np.cumsum(np.bincount(drawers, weights=values)[::-1])
        place = min(int(np.searchsorted(held, target)), held.size - 1)
        above = float(held[place - 1]) if place else above
        values = values[np.flatnonzero(drawers == held.size - 1 - place)]
    values = -np.sort(-values)
    held = above + np.cumsum(values, dtype=np.float64)
    last = min(int(np.searchsorted(held, target)), values.size - 1)
    kept = all_values > values[last]
    # Of those equal to the last, as many as the sum still needs.
    equal = last + 1 - int(np.searchsorted(-values, -values[last]))
    kept[np.flatnonzero(all_values == values[last])[:equal]] = True
    result: Ids = candidates[kept]
    return result


def draw(weights: FloatArray, uniform: float) -> int:
    """The position that `uniform`, in [0, 1), falls on when each takes its weight's share of the line.

    A position without weight is never drawn; at least one has some.
    """
    if weights.size <= _FEW:
        ends = np.cumsum(weights, dtype=np.float64)
        return _first_over(ends, uniform * float(ends[-1]))
    whole = weights.size // _BLOCK * _BLOCK
    sums = weights[:whole].reshape(-1, _BLOCK).sum(axis=1)
    ends = np.cumsum(np.append(sums, weights[whole:].sum()), dtype=np.float64)
    point = uniform * float(ends[-1])
    block = _first_over(ends, point)
    start = block * _BLOCK
    inside = np.cumsum(weights[start : start + _BLOCK], dtype=np.float64)
    return start + _first_over(inside, point - (float(ends[block - 1]) if block else 0.0))


def _first_over(ends: npt.NDArray[np.float64], point: float) -> int:
    # Rounding can leave the point on the line's very end: then the last one with any weight takes it.
    return min(int(np.searchsorted(ends, point, side="right")), int(np.searchsorted(ends, ends[-1])))


def _lower_bound(logits: FloatArray, count: int) -> np.float32:
    """A number that at least `count` logits reach: the count-th of the maxima of disjoint groups."""
    groups = min(logits.size, max(4 * count, 256))
    rows = logits.size // groups
    maxima = logits[: rows * groups].reshape(rows, groups).max(axis=0)
    bound: np.float32 = np.partition(maxima, groups - count)[groups - count]
    return bound
