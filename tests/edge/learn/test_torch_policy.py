"""The packed form gives the same margins, features and gradients as separate answers, from the parent's B."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from fedaigc.adapter import Adapter, AdapterShape, AdapterSlot, frozen_a
from fedaigc.errors import TrainingFailed
from fedaigc_edge.learn.pair_rows import PairTokens, pack, pair_tokens
from fedaigc_edge.learn.torch_policy import PairBatch, TorchPolicy
from tests.edge.learn.tiny_policy import tiny_hf, tiny_policy
from tests.learning_values import BASE_MODEL, SHAPE, an_adapter, some_pairs

pytestmark = pytest.mark.slow
__all__ = ["tiny_hf"]

ROWS = [PairTokens((5, 9, 7, 30), (11, 12, 40), (13, 14)), PairTokens((6, 8), (15, 16), (17, 18, 19, 20))]


def _margin_alone(policy: TorchPolicy, row: PairTokens) -> float:
    """The margin from two ordinary forward passes."""
    sums = []
    for answer in (row.chosen, row.rejected):
        tokens = torch.tensor([[*row.prompt, *answer]])
        with torch.no_grad():
            nats = torch.log_softmax(policy.module(input_ids=tokens, use_cache=False).logits, -1)
        start = len(row.prompt) - 1
        sums.append(sum(float(nats[0, start + place, token]) for place, token in enumerate(answer)))
    return sums[0] - sums[1]


def test_packed_margins_are_those_of_separate_forward_passes(tiny_hf: Path) -> None:
    policy = tiny_policy(tiny_hf, an_adapter(1, length=20.0))
    with torch.no_grad():
        margins = policy.margins(PairBatch(pack(ROWS))).tolist()
    assert margins == pytest.approx([_margin_alone(policy, row) for row in ROWS], abs=1e-4)


def test_features_are_mean_hidden_states_of_the_answers_alone(tiny_hf: Path) -> None:
    policy = tiny_policy(tiny_hf, head_layer=2)
    batch = PairBatch(pack(ROWS))
    with pytest.raises(TrainingFailed, match="too early"):
        policy.differences(batch)
    with torch.no_grad():
        policy.margins(batch)
    found = policy.differences(batch)
    captured = []
    policy._decoder.layers[1].register_forward_hook(lambda _m, _i, out: captured.append(out))
    for number, row in enumerate(ROWS):
        means = []
        for answer in (row.chosen, row.rejected):
            with torch.no_grad():
                policy.module(input_ids=torch.tensor([[*row.prompt, *answer]]), use_cache=False)
            hidden = captured.pop()
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
            means.append(hidden[0, len(row.prompt) :].mean(0))
        assert np.allclose(found[number], (means[0] - means[1]).numpy(), atol=1e-5)


def test_a_is_the_frozen_recipe_and_only_b_is_trained_from_the_parent_s_values(tiny_hf: Path) -> None:
    parent = an_adapter(3)
    policy = tiny_policy(tiny_hf, parent)
    frozen = frozen_a(SHAPE, BASE_MODEL)
    seen = set()
    for name, parameter in policy.module.named_parameters():
        slot = re.sub(r".*(layers\.\d+)\.self_attn(\.\w+)\.lora_.*", r"\1\2", name)
        if "lora_A" in name:
            assert np.array_equal(parameter.detach().numpy(), frozen[slot])
        if "lora_B" in name:
            assert np.array_equal(parameter.detach().numpy(), parent.b[slot])
            seen.add(slot)
        assert parameter.requires_grad == ("lora_B" in name)
    assert seen == set(parent.b)
    assert policy.adapter_delta().norm == 0.0


def test_the_adapter_in_torch_is_the_product_that_the_adapter_claims(tiny_hf: Path) -> None:
    adapter = an_adapter(4, length=30.0)
    policy = tiny_policy(tiny_hf, adapter)
    tokens = torch.tensor([[5, 9, 7, 30, 11]])
    with torch.no_grad():
        with_adapter = policy.module(input_ids=tokens, use_cache=False).logits
        plain = tiny_policy(tiny_hf)
        for slot in SHAPE.slots:
            layer = plain._decoder.layers[slot.layer].self_attn
            weight = getattr(layer, slot.projection).base_layer.weight
            weight += torch.from_numpy(adapter.products()[slot.name])
        merged = plain.module(input_ids=tokens, use_cache=False).logits
    assert torch.allclose(with_adapter, merged, atol=1e-4)


def test_the_first_loss_is_log_two_times_the_weight_and_its_gradient_is_not_zero(tiny_hf: Path) -> None:
    policy = tiny_policy(tiny_hf)
    batch = PairBatch(pack([ROWS[0], replace(ROWS[1], weight=0.5)]))
    losses = policy.losses(batch)
    assert losses.tolist() == pytest.approx([np.log(2), np.log(2) / 2], rel=1e-5)
    losses.sum().backward()  # type: ignore[no-untyped-call]
    assert all(float(p.grad.abs().max()) > 0 for p in policy.module.parameters() if p.requires_grad)


def test_a_pair_s_text_becomes_tokens_through_the_model_s_own_template(tiny_hf: Path) -> None:
    policy = tiny_policy(tiny_hf)
    row = pair_tokens(policy.tokenizer, some_pairs(1)[0])
    assert row.chosen[-1] == row.rejected[-1] == policy.tokenizer.eos_token_id
    assert row.chosen != row.rejected


def test_a_model_that_does_not_fit_the_adapter_is_refused(tiny_hf: Path, tmp_path: Path) -> None:
    other_layer = AdapterShape(4, 8.0, (AdapterSlot(7, "q_proj", 64, 64),))
    other_width = AdapterShape(4, 8.0, (AdapterSlot(0, "q_proj", 64, 48),))
    for shape in (other_layer, other_width, AdapterShape(4, 8.0, (*SHAPE.slots, *other_layer.slots))):
        with pytest.raises(TrainingFailed, match="cannot be trained"):
            tiny_policy(tiny_hf, Adapter.zero(shape, BASE_MODEL))
    with pytest.raises(TrainingFailed, match="cannot be trained"):
        tiny_policy(tiny_hf, head_layer=3)
    with pytest.raises(TrainingFailed, match="cannot be trained"):
        TorchPolicy.open(tmp_path, Adapter.zero(SHAPE, BASE_MODEL), 1)
