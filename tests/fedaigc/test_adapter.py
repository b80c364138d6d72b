"""The frozen A is the same for ever; B travels unchanged; nothing that does not fit is accepted."""

from __future__ import annotations

import math

import blake3
import numpy as np
import pytest

from fedaigc.adapter import Adapter, AdapterShape, AdapterSlot, frozen_a
from fedaigc.arrays import arrays_to_bytes
from fedaigc.errors import VerificationFailed
from tests.learning_values import BASE_MODEL, SHAPE, an_adapter

OTHER_MODEL = "6b" * 32


def _recomputed(base_model: str, name: str, rank: int, in_features: int) -> list[list[float]]:
    """The recipe of `frozen_a`'s docstring again, number by number and without numpy."""
    keyed = blake3.blake3(b"fedaigc/frozen-a/v1/" + name.encode(), key=bytes.fromhex(base_model))
    rows = []
    for row in range(rank):
        numbers = []
        for column in range(in_features):
            word = keyed.digest(length=4, seek=4 * (row * in_features + column))
            upper = int.from_bytes(word, "little") >> 8
            numbers.append((2.0 * (upper / 2**24) - 1.0) / math.sqrt(in_features))
        rows.append(numbers)
    return rows


def test_frozen_a_is_what_an_independent_computation_of_its_recipe_gives() -> None:
    for slot in SHAPE.slots[:2]:
        again = np.array(_recomputed(BASE_MODEL, slot.name, 4, 64), dtype=np.float32)
        assert np.array_equal(frozen_a(SHAPE, BASE_MODEL)[slot.name], again)


def test_frozen_a_never_changes() -> None:
    first = frozen_a(SHAPE, BASE_MODEL)["layers.0.q_proj"]
    digest = blake3.blake3(first.astype("<f4").tobytes()).hexdigest()
    assert digest == "143542808f5e3669ffa6de9bc28d5e5f0321f02c00270a0e57c13e4e7910367d"


def test_frozen_a_is_uniform_within_the_kaiming_bound() -> None:
    shape = AdapterShape(64, 1.0, (AdapterSlot(0, "q_proj", 1024, 8),))
    values = frozen_a(shape, BASE_MODEL)["layers.0.q_proj"] * math.sqrt(1024)
    assert np.abs(values).max() <= 1.0
    assert abs(values.mean()) < 0.01
    assert abs(values.var() - 1 / 3) < 0.01


def test_frozen_a_differs_by_model_and_slot_and_a_lower_rank_is_its_prefix() -> None:
    here = frozen_a(SHAPE, BASE_MODEL)
    assert not np.array_equal(here["layers.0.q_proj"], frozen_a(SHAPE, OTHER_MODEL)["layers.0.q_proj"])
    assert not np.array_equal(here["layers.0.q_proj"], here["layers.1.q_proj"])
    lower = AdapterShape(2, 8.0, SHAPE.slots)
    assert np.array_equal(frozen_a(lower, BASE_MODEL)["layers.0.q_proj"], here["layers.0.q_proj"][:2])


def test_an_adapter_survives_its_file_and_equal_ones_have_equal_files() -> None:
    adapter = an_adapter(1)
    again = Adapter.from_bytes(adapter.to_bytes())
    assert (again.shape, again.base_model) == (adapter.shape, adapter.base_model)
    assert all(np.array_equal(again.b[name], adapter.b[name]) for name in adapter.b)
    assert again.to_bytes() == adapter.to_bytes()


def test_adding_a_delta_and_subtracting_it_again_gives_the_start() -> None:
    start, delta = an_adapter(1), an_adapter(2)
    end = start.add(delta)
    back = end.subtract(start)
    assert all(np.allclose(back.b[name], delta.b[name], atol=1e-6) for name in delta.b)
    assert Adapter.zero(SHAPE, BASE_MODEL).norm == 0.0


def test_the_product_is_scaling_times_b_times_a() -> None:
    adapter = an_adapter(1)
    a = frozen_a(SHAPE, BASE_MODEL)
    product = adapter.products()["layers.1.v_proj"]
    assert product.shape == (32, 64)
    assert np.allclose(product, 2.0 * adapter.b["layers.1.v_proj"] @ a["layers.1.v_proj"], atol=1e-6)


def test_an_adapter_for_another_model_or_shape_cannot_be_added() -> None:
    other = Adapter(SHAPE, OTHER_MODEL, an_adapter(1).b)
    with pytest.raises(VerificationFailed, match="does not fit"):
        an_adapter(1).add(other)
    with pytest.raises(VerificationFailed):
        an_adapter(1).add(Adapter.zero(AdapterShape(2, 8.0, SHAPE.slots), BASE_MODEL))


def test_arrays_are_copied_and_read_only() -> None:
    array = np.zeros((64, 4), np.float32)
    b = {**Adapter.zero(SHAPE, BASE_MODEL).b, "layers.0.q_proj": array}
    adapter = Adapter(SHAPE, BASE_MODEL, b)
    array[0, 0] = 1.0
    assert adapter.norm == 0.0
    with pytest.raises(ValueError, match="read-only"):
        adapter.b["layers.0.q_proj"][0, 0] = 1.0


def test_missing_misshapen_and_infinite_arrays_are_refused() -> None:
    good = dict(an_adapter(1).b)
    wrong = [
        {name: array for name, array in good.items() if name != "layers.0.q_proj"},
        {**good, "layers.9.q_proj": good["layers.0.q_proj"]},
        {**good, "layers.0.q_proj": good["layers.0.q_proj"].T},
        {**good, "layers.0.q_proj": np.full((64, 4), np.inf, np.float32)},
    ]
    for b in wrong:
        with pytest.raises(VerificationFailed):
            Adapter(SHAPE, BASE_MODEL, b)


def test_a_file_of_another_kind_is_refused() -> None:
    about = {"v": 1, "kind": "head", "base_model": BASE_MODEL, "shape": SHAPE.to_json()}
    with pytest.raises(VerificationFailed):
        Adapter.from_bytes(arrays_to_bytes(an_adapter(1).b, about))


def test_shapes_survive_json_and_refuse_nonsense() -> None:
    assert AdapterShape.from_json(SHAPE.to_json()) == SHAPE
    assert (SHAPE.trained_parameters, SHAPE.frozen_parameters) == (4 * 192, 4 * 256)
    with pytest.raises(VerificationFailed):
        AdapterShape(0, 8.0, SHAPE.slots)
    with pytest.raises(VerificationFailed):
        AdapterShape(4, 8.0, ())
    with pytest.raises(VerificationFailed):
        AdapterShape(4, 8.0, SHAPE.slots[:1] * 2)
    with pytest.raises(VerificationFailed):
        AdapterSlot(0, "lm_head", 64, 64)
