"""The mean of FFA adapters is the mean of their products; averaging both factors is not."""

from __future__ import annotations

import numpy as np
import pytest

from fedaigc.adapter import Adapter, AdapterShape, AdapterSlot, frozen_a
from fedaigc.adapter_average import LARGEST_ERROR, mean_adapter, product_error
from fedaigc.errors import VerificationFailed
from tests.learning_values import BASE_MODEL, SHAPE, an_adapter


@pytest.mark.parametrize("nodes", [1, 2, 8, 64])
@pytest.mark.parametrize("rank", [4, 8, 32])
def test_the_mean_is_exact_from_two_to_sixty_four_nodes_and_ranks_four_to_thirty_two(
    nodes: int, rank: int
) -> None:
    shape = AdapterShape(rank, 16.0, (AdapterSlot(0, "q_proj", 96, 48), AdapterSlot(1, "v_proj", 96, 24)))
    mean = mean_adapter([an_adapter(seed, 3.0, shape) for seed in range(nodes)])
    assert mean.error <= LARGEST_ERROR


def test_the_error_is_measured_against_the_products_themselves() -> None:
    adapters = [an_adapter(seed) for seed in range(3)]
    mean = mean_adapter(adapters).adapter
    wanted = {name: sum(a.products()[name].astype(np.float64) for a in adapters) / 3 for name in mean.b}
    for name, product in mean.products().items():
        assert np.linalg.norm(product - wanted[name]) <= 1e-6 * np.linalg.norm(wanted[name])


def test_averaging_a_and_b_separately_fails_the_same_check() -> None:
    draw = np.random.default_rng(2)
    start = frozen_a(SHAPE, BASE_MODEL)
    each_a = [
        {name: a + 0.05 * draw.standard_normal(a.shape).astype(np.float32) for name, a in start.items()}
        for _ in range(4)
    ]
    each_b = [an_adapter(seed).b for seed in range(4)]
    wrong = right = 0.0
    for name in start:
        mean_of_products = sum(b[name] @ a[name] for a, b in zip(each_a, each_b, strict=True)) / 4
        mean_a = np.mean([a[name] for a in each_a], axis=0)
        product_of_means = np.mean([b[name] for b in each_b], axis=0) @ mean_a
        wrong += float(np.square(product_of_means - mean_of_products).sum())
        right += float(np.square(mean_of_products).sum())
    assert np.sqrt(wrong / right) > 0.1 > LARGEST_ERROR


def test_a_mean_that_was_tampered_with_has_a_large_error() -> None:
    adapters = [an_adapter(seed) for seed in range(2)]
    mean = mean_adapter(adapters).adapter
    wrong = {**mean.b, "layers.0.q_proj": mean.b["layers.0.q_proj"] * np.float32(1.01)}
    a = frozen_a(SHAPE, BASE_MODEL)
    assert product_error(wrong, [x.b for x in adapters], [0.5, 0.5], a, 2.0) > 1e-4


def test_weights_are_scaled_to_one() -> None:
    one, two = an_adapter(1), an_adapter(2)
    mean = mean_adapter([one, two], [30.0, 10.0]).adapter
    assert all(np.allclose(mean.b[n], 0.75 * one.b[n] + 0.25 * two.b[n], atol=1e-6) for n in mean.b)


def test_the_mean_of_zero_adapters_is_exactly_zero() -> None:
    zero = Adapter.zero(SHAPE, BASE_MODEL)
    assert mean_adapter([zero, zero]).error == 0.0


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [1.0, float("inf")]]
)
def test_weights_that_do_not_fit_are_refused(weights: list[float]) -> None:
    with pytest.raises(VerificationFailed, match="Weights"):
        mean_adapter([an_adapter(1), an_adapter(2)], weights)


def test_nothing_and_different_kinds_cannot_be_averaged() -> None:
    with pytest.raises(VerificationFailed, match="no adapters"):
        mean_adapter([])
    with pytest.raises(VerificationFailed, match="does not fit"):
        mean_adapter([an_adapter(1), Adapter(SHAPE, "6b" * 32, an_adapter(2).b)])
