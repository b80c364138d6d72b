"""Clip per-pair gradients and carry the sensitivity that follows, so that noise is scaled to no other number.

Formal guarantee: for any two sets of rows that differ in one row, `ClipNorm(c).total` differs by at most `c`
in L2 norm. It holds for a sum only; dividing by the number of rows would leak that number.

| row's norm | what is added to the total |
|---|---|
| 0 | nothing |
| up to c | the row unchanged |
| above c | the row scaled to norm c |
| not finite | refused: VerificationFailed |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaigc.arrays import FloatArray
from fedaigc.errors import VerificationFailed
from fedaigc.fields import Fields


@dataclass(frozen=True)
class ClipNorm:
    """An L2 limit, above 0, on one pair's gradient over all trained arrays together."""

    limit: float

    def __post_init__(self) -> None:
        Fields({"limit": self.limit}, "clip norm").number("limit", 1e-9, 1e6)

    @property
    def sensitivity(self) -> float:
        """How far one pair, added or removed, can move the total."""
        return self.limit

    def factors(self, rows: FloatArray) -> npt.NDArray[np.float64]:
        """What each row of `rows`, (pairs, parameters), is multiplied with: (pairs,) numbers in 0..1."""
        norms = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
        if not np.isfinite(norms).all():
            raise VerificationFailed(
                "A gradient is not finite", "the loss overflowed", "leave this pair out, or report the model"
            )
        scale: npt.NDArray[np.float64] = self.limit / np.maximum(norms, np.finfo(np.float64).tiny)
        return np.minimum(1.0, scale)

    def total(self, rows: FloatArray) -> npt.NDArray[np.float64]:
        """The sum of the clipped rows, (parameters,); zero for no rows."""
        total: npt.NDArray[np.float64] = self.factors(rows) @ rows.astype(np.float64)
        return total


def unit_rows(rows: FloatArray) -> FloatArray:
    """Every row scaled to L2 norm 1, (pairs, features); a row of zeros stays zero."""
    norms = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1, keepdims=True))
    scaled: FloatArray = (rows / np.where(norms > 0.0, norms, 1.0)).astype(np.float32)
    return scaled
