from __future__ import annotations

import numpy as np
import pytest

from fedaigc.adapter import Adapter, AdapterShape, AdapterSlot, frozen_a
from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError, VerificationFailed
from fedaigc_edge.model.lora_layout import LoraPair, LoraPart, graph_inputs

BASE = "ab" * 32
SHAPE = AdapterShape(3, 6.0, (AdapterSlot(1, "q_proj", 8, 8), AdapterSlot(1, "v_proj", 8, 4)))
FUSED = LoraPair("a", "b", 8, 16, (LoraPart("layers.1.q_proj", 0, 8), LoraPart("layers.1.v_proj", 12, 4)))
SPLIT = (
    LoraPair("qa", "qb", 8, 8, (LoraPart("layers.1.q_proj", 0, 8),)),
    LoraPair("va", "vb", 8, 4, (LoraPart("layers.1.v_proj", 0, 4),)),
)


@pytest.fixture
def adapter() -> Adapter:
    random = np.random.default_rng(1)
    arrays: dict[str, FloatArray] = {
        slot.name: random.standard_normal((slot.out_features, 3)).astype(np.float32) for slot in SHAPE.slots
    }
    return Adapter(SHAPE, BASE, arrays)


def test_the_fused_inputs_add_each_slots_product_to_its_own_columns(adapter: Adapter) -> None:
    inputs = graph_inputs(adapter, [FUSED])
    x = np.random.default_rng(2).standard_normal((5, 8)).astype(np.float32)
    added = (x @ inputs["a"] @ inputs["b"])[0]
    a = frozen_a(SHAPE, BASE)
    expected = np.zeros((5, 16), np.float32)
    expected[:, :8] = 2.0 * x @ a["layers.1.q_proj"].T @ adapter.b["layers.1.q_proj"].T
    expected[:, 12:] = 2.0 * x @ a["layers.1.v_proj"].T @ adapter.b["layers.1.v_proj"].T
    np.testing.assert_allclose(added, expected, rtol=1e-4, atol=1e-5)
    assert np.all(added[:, 8:12] == 0)


def test_unfused_inputs_give_the_same_products(adapter: Adapter) -> None:
    inputs = graph_inputs(adapter, SPLIT)
    for part, (a, b) in zip(
        ("layers.1.q_proj", "layers.1.v_proj"), (("qa", "qb"), ("va", "vb")), strict=True
    ):
        np.testing.assert_allclose(
            (inputs[a] @ inputs[b])[0].T, adapter.products()[part], rtol=1e-5, atol=1e-6
        )


def test_arrays_are_contiguous_float32_of_the_declared_sizes(adapter: Adapter) -> None:
    inputs = graph_inputs(adapter, [FUSED])
    assert {name: array.shape for name, array in inputs.items()} == {"a": (1, 8, 6), "b": (1, 6, 16)}
    assert all(array.dtype == np.float32 and array.flags.c_contiguous for array in inputs.values())


def test_an_adapter_with_other_slots_is_refused(adapter: Adapter) -> None:
    with pytest.raises(ModelError, match="does not fit"):
        graph_inputs(adapter, SPLIT[:1])


def test_a_pair_survives_json() -> None:
    assert LoraPair.from_json(FUSED.to_json()) == FUSED


@pytest.mark.parametrize("change", [{"in_features": 0}, {"extra": 1}, {"parts": [{"slot": "x"}]}])
def test_a_damaged_pair_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(VerificationFailed):
        LoraPair.from_json({**FUSED.to_json(), **change})
