from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedaigc.errors import ModelError, VerificationFailed
from fedaigc_edge.model.architecture import Architecture, adapter_shape, architecture_of

SMOLLM2 = {
    "num_hidden_layers": 30,
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}


def read(folder: Path, **changes: object) -> Architecture:
    (folder / "config.json").write_text(json.dumps({**SMOLLM2, **changes}))
    return architecture_of(folder)


def test_smollm2_gives_the_sizes_that_its_weights_have(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert (found.head_dim, found.head_layer, found.tied, found.context) == (64, 20, True, 8192)
    assert dict(found.projections) == {"q_proj": 576, "k_proj": 192, "v_proj": 192}


def test_sizes_survive_json(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert Architecture.from_json(found.to_json()) == found
    with pytest.raises(VerificationFailed):
        Architecture.from_json({**found.to_json(), "layers": 0})


def test_a_head_size_of_its_own_is_respected(tmp_path: Path) -> None:
    assert read(tmp_path, head_dim=128).projections["q_proj"] == 9 * 128


def test_a_null_means_the_derived_value(tmp_path: Path) -> None:
    found = read(tmp_path, head_dim=None, num_key_value_heads=None)
    assert (found.head_dim, found.kv_heads) == (64, 9)


def test_adapters_sit_on_q_and_v_of_the_last_layers(tmp_path: Path) -> None:
    shape = adapter_shape(read(tmp_path), layers=2, rank=8, alpha=16.0)
    names = ["layers.28.q_proj", "layers.28.v_proj", "layers.29.q_proj", "layers.29.v_proj"]
    assert [slot.name for slot in shape.slots] == names
    assert [slot.out_features for slot in shape.slots] == [576, 192, 576, 192]


def test_all_four_projections_can_be_adapted_in_the_models_own_order(tmp_path: Path) -> None:
    shape = adapter_shape(read(tmp_path, head_dim=96), 1, 8, 16.0, ("o", "k", "v", "q"))
    found = [(slot.projection, slot.in_features, slot.out_features) for slot in shape.slots]
    assert found == [
        ("q_proj", 576, 864),
        ("k_proj", 576, 288),
        ("v_proj", 576, 288),
        ("o_proj", 864, 576),
    ]


@pytest.mark.parametrize("targets", [(), ("q", "q"), ("x",), ("q_proj",)])
def test_other_targets_are_a_model_error(tmp_path: Path, targets: tuple[str, ...]) -> None:
    with pytest.raises(ModelError, match="targets"):
        adapter_shape(read(tmp_path), 1, 8, 16.0, targets)


@pytest.mark.parametrize("layers", [0, 31])
def test_more_layers_than_there_are_is_a_model_error(tmp_path: Path, layers: int) -> None:
    with pytest.raises(ModelError, match="30 layers"):
        adapter_shape(read(tmp_path), layers, rank=8, alpha=16.0)


def test_an_impossible_rank_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        adapter_shape(read(tmp_path), 1, rank=0, alpha=16.0)


@pytest.mark.parametrize(
    "change", [{"hidden_size": 0}, {"num_hidden_layers": "30"}, {"num_attention_heads": -1}]
)
def test_an_absurd_size_is_a_model_error(tmp_path: Path, change: dict[str, object]) -> None:
    with pytest.raises(ModelError):
        read(tmp_path, **change)
