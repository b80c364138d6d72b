from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedaigc.arrays import FloatArray
from fedaigc_edge.engine.token_filters import best_first, draw, largest, nucleus

INF = np.float32(np.inf)
ROWS = hnp.arrays(
    np.float32,
    st.integers(1, 60),
    elements=st.one_of(
        st.floats(-50, 50, width=32), st.sampled_from([0.0, 1.0, -np.inf, 3e38, -3e38]), st.integers(-3, 3)
    ),
)


def shapes() -> dict[str, FloatArray]:
    """Rows as models give them and as nobody would: flat, steep, long tails, ties, barred tokens."""
    random = np.random.default_rng(11)
    noise = random.standard_normal(49_152).astype(np.float32)
    tail = (-1.3 * np.log(random.permutation(49_152) + 1) + 0.3 * noise).astype(np.float32)
    barred = noise.copy()
    barred[random.random(49_152) < 0.99] = -INF
    return {
        "flat": noise,
        "steep": 8 * noise,
        "tail": tail,
        "ties": np.round(noise),
        "all equal": np.full(49_152, 2.5, np.float32),
        "nearly equal": (1 + 1e-6 * noise).astype(np.float32),
        "barred": barred,
        "odd size": noise[:4_999],
        "huge": noise * np.float32(3e37),
    }


def weights_of(row: FloatArray, temperature: float = 1.0) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp((row - row.max()) / np.float32(temperature)), np.float32)


def brute_nucleus(weights: FloatArray, share: float) -> tuple[npt.NDArray[np.int64], float]:
    """The kept positions, and how near a border of the sums lies to the wanted share."""
    order = np.lexsort((np.arange(weights.size), -weights))
    sums = np.cumsum(weights[order].astype(np.float64))
    target = share * sums[-1]
    count = min(int(np.searchsorted(sums, target)) + 1, weights.size)
    return np.sort(order[:count]), float(np.abs(sums - target).min() / sums[-1])


@pytest.mark.parametrize("share", [1e-9, 0.1, 0.5, 0.9, 0.95, 0.999, 0.9999999])
@pytest.mark.parametrize("name", shapes())
def test_the_nucleus_is_the_brute_force_one(name: str, share: float) -> None:
    weights = weights_of(shapes()[name])
    kept = nucleus(weights, share)
    expected, margin = brute_nucleus(weights, share)
    assert (np.diff(kept) > 0).all()
    if margin > 1e-6:
        assert np.array_equal(kept, expected)
    else:
        # float32 sums cannot tell which side the border is on; the share is held all the same.
        assert float(weights[kept].astype(np.float64).sum()) >= (share - 1e-6) * float(weights.sum())
        assert weights[kept].min() >= np.delete(weights, kept).max(initial=0)


@given(ROWS, st.floats(1e-6, 0.999999))
@settings(max_examples=300)
def test_the_nucleus_of_a_small_row_is_the_brute_force_one(row: FloatArray, share: float) -> None:
    if row.max() == -INF:
        return
    weights = weights_of(row)
    expected, margin = brute_nucleus(weights, share)
    if margin > 1e-6:
        assert np.array_equal(nucleus(weights, share), expected)


@pytest.mark.parametrize("count", [1, 2, 40, 1_000, 5_000, 10**6])
@pytest.mark.parametrize("name", shapes())
def test_largest_keeps_the_count_and_its_ties(name: str, count: int) -> None:
    row = shapes()[name]
    last = np.sort(row)[::-1][min(count, row.size) - 1]
    assert np.array_equal(largest(row, count), np.flatnonzero((row >= last) & (row > -INF)))


@given(ROWS, st.integers(1, 70))
@settings(max_examples=300)
def test_largest_and_best_first_of_a_small_row(row: FloatArray, count: int) -> None:
    order = np.lexsort((np.arange(row.size), -row))
    order = order[row[order] > -INF]
    assert np.array_equal(best_first(row, count), order[:count])
    last = row[order[: count or 1]].min(initial=INF)
    assert np.array_equal(largest(row, count), np.sort(order[row[order] >= last]))


@pytest.mark.parametrize("name", shapes())
def test_a_draw_is_the_inverse_of_the_summed_weights(name: str) -> None:
    weights = weights_of(shapes()[name])
    ends = np.cumsum(weights.astype(np.float64))
    for uniform in [*np.random.default_rng(3).random(300), 0.0, 1 - 2**-53]:
        position = draw(weights, float(uniform))
        assert weights[position] > 0
        low = ends[position - 1] if position else 0.0
        assert low - 2e-6 * ends[-1] <= uniform * ends[-1] <= ends[position] + 2e-6 * ends[-1]


@given(ROWS, st.floats(0, 1, exclude_max=True))
def test_a_draw_never_takes_what_has_no_weight(row: FloatArray, uniform: float) -> None:
    if row.max() > -INF:
        weights = weights_of(row)
        assert weights[draw(weights, uniform)] > 0


def test_draws_come_in_proportion_chi_square() -> None:
    from scipy import stats

    random = np.random.default_rng(5)
    for size in (12, 2_500):
        weights = weights_of(2 * random.standard_normal(size).astype(np.float32))
        drawn = [draw(weights, float(uniform)) for uniform in random.random(20_000)]
        expected = weights.astype(np.float64) / weights.sum(dtype=np.float64) * 20_000
        often = expected >= 5
        seen = np.bincount(drawn, minlength=size)
        seen = np.append(seen[often], seen[~often].sum())
        wanted = np.append(expected[often], expected[~often].sum())
        if wanted[-1] == 0:
            seen, wanted = seen[:-1], wanted[:-1]
        assert stats.chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue > 1e-4


def hugging(processor: Any, row: FloatArray) -> npt.NDArray[np.int64]:
    import torch

    kept = processor(torch.zeros((1, 1), dtype=torch.long), torch.from_numpy(row.copy())[None])[0]
    return np.flatnonzero(kept.numpy() > -np.inf)


@pytest.mark.parametrize("name", ["flat", "steep", "tail", "odd size", "ties", "barred"])
def test_top_k_and_top_p_keep_what_transformers_keeps(name: str) -> None:
    processors = pytest.importorskip("transformers.generation.logits_process")
    row = shapes()[name]
    for count in (1, 40, 500):
        ids = hugging(processors.TopKLogitsWarper(count), row)
        assert np.array_equal(largest(row, count), ids[row[ids] > -INF])
    for share in (0.1, 0.5, 0.9, 0.95):
        ours = nucleus(weights_of(row), share)
        theirs = hugging(processors.TopPLogitsWarper(share), row)
        # Which of several equal tokens stay is arbitrary, and float32 sums of 49,152 terms round.
        assert abs(ours.size - theirs.size) <= max(2, theirs.size // 1_000)
        shorter = min(ours.size, theirs.size)
        assert np.array_equal(np.sort(row[ours])[::-1][:shorter], np.sort(row[theirs])[::-1][:shorter])
