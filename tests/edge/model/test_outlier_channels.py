from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaigc.arrays import FloatArray
from fedaigc_edge.model.outlier_channels import outlying


def activations(seed: int, features: int = 96) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((50, features)).astype(np.float32)


def rounding_error(values: FloatArray) -> float:
    """Sum of squared errors of 8 bits with one scale for 32 features."""
    blocks = values.reshape(len(values), -1, 32)
    scale = np.maximum(np.abs(blocks).max(-1, keepdims=True) / 127, 1e-30)
    return float(((np.round(blocks / scale) * scale - blocks) ** 2).sum())


def without(values: FloatArray, features: tuple[int, ...]) -> FloatArray:
    left = values.copy()
    left[:, list(features)] = 0.0
    return left


def test_huge_features_are_found() -> None:
    values = activations(1)
    values[:, [7, 40, 41, 90]] *= 100
    assert outlying(values, 5) == (7, 40, 41, 90)


def test_without_them_rounding_errs_a_thousandth() -> None:
    values = activations(2)
    values[:, [7, 40, 90]] *= 100
    assert rounding_error(without(values, outlying(values, 4))) < rounding_error(values) / 1000


@given(seed=st.integers(0, 1000), most=st.integers(1, 20))
def test_they_are_few_different_and_in_order(seed: int, most: int) -> None:
    found = outlying(activations(seed), most)
    assert most - most // 4 <= len(found) <= most
    assert list(found) == sorted(set(found))


@given(seed=st.integers(0, 1000))
def test_the_last_digit_of_a_sum_changes_nothing(seed: int) -> None:
    values = activations(seed)
    noise = 1 + 1e-6 * np.random.default_rng(seed + 1).standard_normal(values.shape)
    assert outlying(values, 12) == outlying((values * noise).astype(np.float32), 12)


def test_nothing_asked_for_is_nothing_found() -> None:
    assert outlying(activations(3), 0) == ()


@pytest.mark.parametrize("features", [32, 64])
def test_more_than_there_are_ends(features: int) -> None:
    assert len(outlying(activations(4, features), 1000)) < features
