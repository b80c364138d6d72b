from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc_edge.engine.kv_pool import KvPool, KvShape

SMALL = KvShape(layers=2, kv_heads=2, head_dim=4)


def test_a_token_takes_two_arrays_a_layer_of_its_kv_heads() -> None:
    # SmolLM2-135M: 30 layers, 3 of 9 heads for keys and values, 64 features, fp32.
    assert KvShape(30, 3, 64).bytes_per_token == 46_080


def test_predicted_bytes_are_those_of_the_arrays() -> None:
    pool = KvPool(SMALL, slots=3, row_tokens=16, limit_bytes=1 << 20)
    real = sum(array.nbytes for array in pool.arrays)
    assert real == 3 * 16 * SMALL.bytes_per_token
    assert {array.shape for array in pool.arrays} == {(3, 2, 16, 4)}


def test_neighbouring_slots_are_one_contiguous_batch() -> None:
    pool = KvPool(SMALL, slots=4, row_tokens=16, limit_bytes=1 << 20)
    assert all(array[1:3].flags.c_contiguous for array in pool.arrays)


@given(st.lists(st.tuples(st.sampled_from(["promise", "hold", "keep", "empty"]), st.integers(0, 3),
                          st.integers(0, 40)), max_size=60))  # fmt: skip
def test_what_is_promised_never_exceeds_the_limit_and_holds_what_is_held(
    acts: list[tuple[str, int, int]],
) -> None:
    pool = KvPool(SMALL, slots=4, row_tokens=32, limit_bytes=50 * SMALL.bytes_per_token)
    promised, held = [0] * 4, [0] * 4
    for act, slot, tokens in acts:
        if act == "promise":
            fits = tokens <= 32 and sum(promised) - promised[slot] + tokens <= 50
            assert pool.promise(slot, tokens) == fits
            promised[slot] = tokens if fits else promised[slot]
            held[slot] = min(held[slot], promised[slot])
            pool.hold(slot, held[slot])
        elif act == "hold":
            held[slot] = min(tokens, promised[slot])
            pool.hold(slot, held[slot])
        elif act == "keep":
            held[slot] = promised[slot] = min(held[slot], tokens)
            pool.keep(slot, tokens)
        else:
            held[slot] = promised[slot] = 0
            pool.empty(slot)
        assert pool.promised_bytes == sum(promised) * SMALL.bytes_per_token <= pool.limit_bytes
        assert pool.held_bytes == sum(held) * SMALL.bytes_per_token
        internal, external = pool.fragmentation()
        assert internal == pytest.approx(1 - sum(held) / sum(promised) if sum(promised) else 0.0)
        free = 50 - sum(promised)
        largest = min(free, 32) if 0 in promised else 0
        assert external == pytest.approx(1 - largest / free if free else 0.0)


def test_holding_more_than_was_promised_is_a_defect() -> None:
    pool = KvPool(SMALL, slots=1, row_tokens=8, limit_bytes=1 << 20)
    assert pool.promise(0, 4)
    with pytest.raises(AssertionError, match="promised 4"):
        pool.hold(0, 5)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's memory figures")
def test_memory_is_taken_by_the_first_write_and_given_back_by_an_emptied_slot() -> None:
    process = psutil.Process(os.getpid())
    before = process.memory_info().rss
    pool = KvPool(KvShape(8, 4, 64), slots=4, row_tokens=4096, limit_bytes=1 << 32)
    total = sum(array.nbytes for array in pool.arrays)
    assert total > 200 << 20
    assert process.memory_info().rss - before < total / 4
    pool.promise(1, 4096)
    pool.hold(1, 4096)
    for array in pool.arrays:
        array[1] = np.float32(1)
    full = process.memory_info().rss
    assert full - before > total / 5
    pool.empty(1)
    assert full - process.memory_info().rss > total / 5
    assert all(float(array[1].sum()) == 0.0 for array in pool.arrays)
