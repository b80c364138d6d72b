"""The mean of adapters whose A is frozen, and a measurement that it is the mean of their products.

What a base needs is the mean of the products, mean(B_k A). With one frozen A that is mean(B_k) A exactly;
averaging A and B separately, as is common, is wrong by tens of per cent. The claim is not taken on trust: the
error is computed each time from the products themselves, and goes into the record of the round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaigc.adapter import Adapter, frozen_a
from fedaigc.arrays import FloatArray
from fedaigc.errors import VerificationFailed

LARGEST_ERROR = 1e-6
"""A mean whose product is further from the mean of products, relatively, is not published."""


@dataclass(frozen=True)
class AdapterMean:
    """The mean adapter and its relative error in Frobenius norm against mean(B_k A) over all slots."""

    adapter: Adapter
    error: float


def mean_adapter(adapters: Sequence[Adapter], weights: Sequence[float] | None = None) -> AdapterMean:
    """The weighted mean of B; equal weights by default, otherwise positive ones, scaled to sum 1.

    Raises VerificationFailed for no adapters, different kinds, misfitting weights, or an error above 1e-6.
    """
    shares = _shares(len(adapters), weights)
    first = adapters[0]
    for other in adapters[1:]:
        first.require_same_kind(other)
    b = {
        name: sum(share * a.b[name].astype(np.float64) for share, a in zip(shares, adapters, strict=True))
        for name in first.b
    }
    mean = Adapter(first.shape, first.base_model, {name: _single(array) for name, array in b.items()})
    error = product_error(
        mean.b, [a.b for a in adapters], shares, frozen_a(first.shape, first.base_model), first.scaling
    )
    if not error <= LARGEST_ERROR:
        raise VerificationFailed(
            "The mean of adapters is not exact",
            f"relative error {error:.1e}, limit {LARGEST_ERROR:g}",
            "report this",
        )
    return AdapterMean(mean, error)


def product_error(
    mean_b: Mapping[str, FloatArray],
    each_b: Sequence[Mapping[str, FloatArray]],
    shares: Sequence[float],
    a: Mapping[str, FloatArray],
    scaling: float,
) -> float:
    """||scaling * mean_b A - W|| / ||W||, W = the sum of shares * scaling * B_k A, over all slots together.

    In double precision; 0.0 when both are zero.
    """
    wrong = right = 0.0
    for name, factor in a.items():
        exact = factor.astype(np.float64)
        wanted = sum(
            share * scaling * (b[name].astype(np.float64) @ exact)
            for share, b in zip(shares, each_b, strict=True)
        )
        published = scaling * (mean_b[name].astype(np.float64) @ exact)
        wrong += float(np.square(published - wanted).sum())
        right += float(np.square(wanted).sum())
    return float(np.sqrt(wrong / right)) if right else float(np.sqrt(wrong))


def _shares(count: int, weights: Sequence[float] | None) -> list[float]:
    if not count:
        raise VerificationFailed("There are no adapters to average", "", "wait for updates")
    chosen = [1.0] * count if weights is None else [float(weight) for weight in weights]
    if len(chosen) != count or not all(0.0 < weight < 1e12 for weight in chosen):
        raise VerificationFailed("Weights do not fit", "each adapter needs one above 0", "correct them")
    total = sum(chosen)
    return [weight / total for weight in chosen]


def _single(array: npt.NDArray[np.float64] | int) -> FloatArray:
    return np.asarray(array, dtype=np.float32)
