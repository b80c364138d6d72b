from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.engine.adapter_rows import AdapterRows, Inputs, bytes_of, checked_inputs, no_adapter
from fedaigc_edge.model.lora_layout import LoraPair

PAIRS = (LoraPair("0.a", "0.b", 6, 4, ()), LoraPair("1.a", "1.b", 5, 7, ()))


def adapter(seed: int, rank: int = 3) -> dict[str, FloatArray]:
    dice = np.random.default_rng(seed)
    arrays: dict[str, FloatArray] = {}
    for pair in PAIRS:
        arrays[pair.a] = dice.standard_normal((1, pair.in_features, rank)).astype(np.float32)
        arrays[pair.b] = dice.standard_normal((1, rank, pair.out_features)).astype(np.float32)
    return arrays


def product(inputs: Inputs, row: int) -> list[FloatArray]:
    """What the graph adds for one row of a batch: A @ B of each pair."""
    return [inputs[pair.a][row] @ inputs[pair.b][row] for pair in PAIRS]


KINDS: list[Inputs] = [
    no_adapter(PAIRS),
    *(adapter(seed, rank) for seed, rank in ((1, 1), (2, 3), (3, 3), (4, 8))),
]


@given(st.lists(st.lists(st.sampled_from(range(5)), min_size=1, max_size=6), min_size=1, max_size=12))
def test_whatever_was_stacked_before_each_row_has_its_own_adapter(batches: list[list[int]]) -> None:
    rows = AdapterRows(KINDS[0])
    for batch in batches:
        stacked = rows.stacked([KINDS[kind] for kind in batch])
        for row, kind in enumerate(batch):
            for got, wanted in zip(product(stacked, row), product(KINDS[kind], 0), strict=True):
                np.testing.assert_allclose(got, wanted, atol=1e-5)
        assert all(array.shape[0] == len(batch) for array in stacked.values())
        assert rows.bytes >= bytes_of(stacked)


def test_an_unchanged_batch_gives_the_same_objects_and_a_changed_one_the_same_memory() -> None:
    rows = AdapterRows(KINDS[0])
    first = rows.stacked([KINDS[2], KINDS[3]])
    assert rows.stacked([KINDS[2], KINDS[3]]) is first
    arrays = dict(first)
    second = rows.stacked([KINDS[0], KINDS[3]])
    assert all(second[name] is arrays[name] for name in arrays)


def test_stacked_arrays_are_contiguous_from_their_first_row() -> None:
    rows = AdapterRows(KINDS[0])
    rows.stacked([KINDS[2]] * 4)
    for array in rows.stacked([KINDS[2], KINDS[0]]).values():
        assert array.flags.c_contiguous and array.shape[0] == 2


def test_two_dimensional_arrays_get_their_first_axis() -> None:
    flat = {name: array[0] for name, array in adapter(1).items()}
    checked = checked_inputs(flat, PAIRS)
    assert all(np.array_equal(checked[name][0], flat[name]) for name in flat)


@pytest.mark.parametrize("fault", ["missing", "extra", "in", "out", "ranks", "rows", "axes"])
def test_arrays_that_do_not_fit_the_graph_are_refused(fault: str) -> None:
    arrays = adapter(1)
    if fault == "missing":
        del arrays["0.a"]
    elif fault == "extra":
        arrays["2.a"] = arrays["0.a"]
    elif fault == "in":
        arrays["0.a"] = arrays["0.a"][:, 1:]
    elif fault == "out":
        arrays["0.b"] = arrays["0.b"][:, :, 1:]
    elif fault == "ranks":
        arrays["0.b"] = arrays["0.b"][:, 1:]
    elif fault == "rows":
        arrays["0.a"] = np.repeat(arrays["0.a"], 2, axis=0)
    else:
        arrays["0.a"] = arrays["0.a"][0, 0]
    with pytest.raises(ModelError, match="does not fit"):
        checked_inputs(arrays, PAIRS)


def test_no_adapter_adds_nothing() -> None:
    assert all(not array.any() for array in product(no_adapter(PAIRS), 0))
