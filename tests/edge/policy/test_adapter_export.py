from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedaigc.adapter import Adapter, AdapterShape, frozen_a
from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError, StorageError, VerificationFailed
from fedaigc_edge.model.lora_layout import graph_inputs
from fedaigc_edge.model.store import ModelFolder, open_model
from fedaigc_edge.policy.adapter_export import export_adapter, read_adapter_inputs
from tests.edge.served_model import ServedLogits

PROMPTS = ("the quick brown fox", "a policy is", "lazy dog jumps over the reward head", "你好")


def random_adapter(model: ModelFolder, size: float = 1.0, seed: int = 11) -> Adapter:
    random = np.random.default_rng(seed)
    arrays = {
        slot.name: (size * random.standard_normal((slot.out_features, model.shape.rank))).astype(np.float32)
        for slot in model.shape.slots
    }
    return Adapter(model.shape, model.base_model, arrays)


def peft_model(model: ModelFolder, adapter: Adapter) -> Any:
    """The model in PyTorch with the adapter as PEFT's own LoRA layers: independent of our products."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(model.hf, dtype=torch.float32)
    layers = sorted({slot.layer for slot in adapter.shape.slots})
    projections = sorted({slot.projection for slot in adapter.shape.slots})
    config = LoraConfig(
        r=adapter.shape.rank,
        lora_alpha=int(adapter.shape.alpha),
        target_modules=projections,
        layers_to_transform=layers,
        lora_dropout=0.0,
    )
    wrapped = get_peft_model(base, config).eval()
    frozen = frozen_a(adapter.shape, adapter.base_model)
    with torch.no_grad():
        for slot in adapter.shape.slots:
            layer = getattr(base.model.layers[slot.layer].self_attn, slot.projection)
            layer.lora_A["default"].weight.copy_(torch.from_numpy(frozen[slot.name].copy()))
            layer.lora_B["default"].weight.copy_(torch.from_numpy(adapter.b[slot.name].copy()))
    return wrapped


def trained_change(served: ServedLogits, model: ModelFolder, adapter: Adapter) -> FloatArray:
    import torch

    wrapped = peft_model(model, adapter)
    rows = []
    with torch.no_grad():
        for text in PROMPTS:
            ids = torch.tensor([served.codec.encode(text)])
            with wrapped.disable_adapter():
                base = wrapped(ids).logits[0, -1]
            rows.append((wrapped(ids).logits[0, -1] - base).numpy())
    return np.stack(rows)


def served_change(served: ServedLogits, file: Path) -> FloatArray:
    change: FloatArray = served.last(PROMPTS, file) - served.last(PROMPTS)
    return change


def test_trained_with_peft_and_served_by_the_runtime_agree(tiny_model: ModelFolder, tmp_path: Path) -> None:
    adapter = random_adapter(tiny_model)
    logits = ServedLogits(tiny_model)
    export_adapter(adapter, tiny_model, tmp_path / "a.onnx_adapter")
    served = served_change(logits, tmp_path / "a.onnx_adapter")
    trained = trained_change(logits, tiny_model, adapter)
    assert np.abs(trained).max() > 1.0
    np.testing.assert_allclose(served, trained, atol=2e-3)


def test_the_zero_adapter_changes_no_bit(tiny_model: ModelFolder, tmp_path: Path) -> None:
    export_adapter(Adapter.zero(tiny_model.shape, tiny_model.base_model), tiny_model, tmp_path / "zero")
    assert not served_change(ServedLogits(tiny_model), tmp_path / "zero").any()


def test_equal_adapters_give_equal_files_and_nothing_else_is_left(
    tiny_model: ModelFolder, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        export_adapter(random_adapter(tiny_model), tiny_model, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_the_file_reads_back_as_the_graphs_inputs(tiny_model: ModelFolder, tmp_path: Path) -> None:
    adapter = random_adapter(tiny_model)
    export_adapter(adapter, tiny_model, tmp_path / "a")
    found = read_adapter_inputs(tmp_path / "a")
    expected = graph_inputs(adapter, tiny_model.lora_inputs)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_a_damaged_adapter_file_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"no adapter")
    with pytest.raises(ModelError, match="cannot be read"):
        read_adapter_inputs(tmp_path / "a")


def test_an_adapter_for_another_model_is_refused(tiny_model: ModelFolder, tmp_path: Path) -> None:
    other = Adapter.zero(tiny_model.shape, "00" * 32)
    with pytest.raises(VerificationFailed, match="another base model"):
        export_adapter(other, tiny_model, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_an_adapter_of_another_shape_is_refused(tiny_model: ModelFolder, tmp_path: Path) -> None:
    shape = AdapterShape(tiny_model.shape.rank, tiny_model.shape.alpha * 2, tiny_model.shape.slots)
    with pytest.raises(VerificationFailed, match="another shape"):
        export_adapter(Adapter.zero(shape, tiny_model.base_model), tiny_model, tmp_path / "x")


def test_a_folder_that_cannot_be_written_is_a_storage_error(tiny_model: ModelFolder, tmp_path: Path) -> None:
    adapter = Adapter.zero(tiny_model.shape, tiny_model.base_model)
    with pytest.raises(StorageError):
        export_adapter(adapter, tiny_model, tmp_path / "missing" / "x")


@pytest.mark.slow
def test_trained_and_served_agree_on_the_real_model(models: Path, tmp_path: Path) -> None:
    model = open_model(models, "smollm2-135m")
    # As strong as the probe of the parity check: 5 to 9 % of the base weights' norm.
    adapter = random_adapter(model, 0.1)
    logits = ServedLogits(model)
    export_adapter(adapter, model, tmp_path / "a.onnx_adapter")
    served = served_change(logits, tmp_path / "a.onnx_adapter")
    trained = trained_change(logits, model, adapter)
    cosine = float((served * trained).sum() / np.linalg.norm(served) / np.linalg.norm(trained))
    # With every activation rounded to 8 bits it would be 0.6; what is left is noise, not another direction.
    assert cosine > 0.9
    slope = float((served * trained).sum() / (trained * trained).sum())
    assert 0.9 < slope < 1.1
