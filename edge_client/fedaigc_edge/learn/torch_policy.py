"""The policy in torch: base model, frozen A and trained B; margins of pairs, features for the reward head."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from fedaigc.adapter import Adapter, frozen_a
from fedaigc.arrays import FloatArray
from fedaigc.errors import TrainingFailed
from fedaigc_edge.learn.pair_rows import CHOSEN, REJECTED, PackedPairs, Tokenizer, visible

BETA = 0.1
"""DPO's temperature: how strongly a margin, in nats, counts. Public; the gradient is clipped after it."""


class PairBatch:
    """Some packed pairs as tensors, with what the first pass over them found."""

    def __init__(self, packed: PackedPairs) -> None:
        self.tokens = torch.from_numpy(packed.tokens)
        self.positions = torch.from_numpy(packed.positions)
        self.weights = torch.from_numpy(packed.weights)
        self.segments = torch.from_numpy(packed.segments)
        self.sources = torch.from_numpy(packed.sources)
        # Additive, as the attention of transformers takes four dimensions: (pairs, 1, length, length).
        blocked = torch.from_numpy(~visible(packed))[:, None]
        self.mask = torch.zeros(blocked.shape).masked_fill(blocked, torch.finfo(torch.float32).min)
        self.reference: torch.Tensor | None = None
        self.features: FloatArray | None = None

    def __len__(self) -> int:
        return int(self.tokens.shape[0])


class TorchPolicy:
    """One policy, opened for training B from the parent's values in float32.

    bfloat16 would be twice as quick where the processor has it, but its gradients differ by 3 per cent from
    float32 ones, and from one machine to another.
    """

    def __init__(self, model: Any, parent: Adapter, head_layer: int) -> None:
        self.tokenizer: Tokenizer
        self._parent = parent
        self.module, self._b = _with_adapter(model, parent)
        self.module.train()
        decoder = self.module.get_base_model().get_decoder()
        self._decoder = decoder
        self._lm_head = self.module.get_base_model().get_output_embeddings()
        if not 1 <= head_layer <= len(decoder.layers):
            raise _misfit(f"it has {len(decoder.layers)} layers, the reward head reads layer {head_layer}")
        self._hidden: torch.Tensor | None = None
        decoder.layers[head_layer - 1].register_forward_hook(self._keep_hidden)

    @classmethod
    def open(cls, hf: Path, parent: Adapter, head_layer: int) -> TorchPolicy:
        """Load a Hugging Face folder, never the network. Raises TrainingFailed when it does not fit."""
        try:
            model = AutoModelForCausalLM.from_pretrained(
                hf,
                dtype=torch.float32,
                local_files_only=True,
                use_safetensors=True,
                attn_implementation="sdpa",
            )
            tokenizer = AutoTokenizer.from_pretrained(hf, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise _misfit(type(error).__name__) from error
        policy = cls(model, parent, head_layer)
        policy.tokenizer = tokenizer
        return policy

    def losses(self, batch: PairBatch) -> torch.Tensor:
        """The DPO loss of each pair against the policy as it was at the first call: (pairs,), times weight.

        The first call also keeps the batch's features, see `differences`.
        """
        margins = self.margins(batch)
        if batch.reference is None:
            batch.reference = margins.detach()
        return batch.weights * -torch.nn.functional.logsigmoid(BETA * (margins - batch.reference))

    def margins(self, batch: PairBatch) -> torch.Tensor:
        """log p(chosen) - log p(rejected) in nats, summed over their tokens: (pairs,)."""
        hidden = self._decoder(
            input_ids=batch.tokens,
            position_ids=batch.positions,
            attention_mask=batch.mask,
            use_cache=False,
        ).last_hidden_state
        if batch.features is None:
            batch.features = self._pooled_difference(batch)
        # The vocabulary is far wider than the model: logits are made for answer tokens alone.
        pair, place = torch.nonzero(batch.segments >= CHOSEN, as_tuple=True)
        logits = self._lm_head(hidden[pair, batch.sources[pair, place]])
        nats = -torch.nn.functional.cross_entropy(logits, batch.tokens[pair, place], reduction="none")
        signs = torch.where(batch.segments[pair, place] == CHOSEN, 1.0, -1.0)
        return torch.zeros(len(batch)).index_add(0, pair, signs * nats)

    def differences(self, batch: PairBatch) -> FloatArray:
        """Mean hidden state of the chosen answer minus that of the rejected one: (pairs, dim).

        Raises TrainingFailed before the first pass over the batch.
        """
        if batch.features is None:
            raise TrainingFailed("Features were asked for too early", "", "report this: it is a defect")
        return batch.features

    def adapter_delta(self) -> Adapter:
        """How B differs now from the parent's."""
        b = {name: p.detach().numpy().copy() for name, p in self._b.items()}
        return Adapter(self._parent.shape, self._parent.base_model, b).subtract(self._parent)

    def _keep_hidden(self, _layer: Any, _inputs: Any, output: Any) -> None:
        self._hidden = (output[0] if isinstance(output, tuple) else output).detach()

    def _pooled_difference(self, batch: PairBatch) -> FloatArray:
        if self._hidden is None:
            raise TrainingFailed("The reward head's layer did not run", "", "report this: it is a defect")
        means = []
        for segment in (CHOSEN, REJECTED):
            of_answer = (batch.segments == segment).to(self._hidden.dtype)
            means.append(torch.einsum("nl,nld->nd", of_answer, self._hidden) / of_answer.sum(1, keepdim=True))
        self._hidden = None
        difference: FloatArray = (means[0] - means[1]).float().numpy()
        return difference


def _with_adapter(model: Any, parent: Adapter) -> tuple[Any, dict[str, torch.nn.Parameter]]:
    """The model under PEFT, A frozen from the recipe, B from the parent; and B's parameters by slot."""
    shape = parent.shape
    pattern = "|".join(
        rf".*\.layers\.{slot.layer}\.(self_attn|mlp)\.{re.escape(slot.projection)}" for slot in shape.slots
    )
    try:
        module = get_peft_model(
            model,
            LoraConfig(r=shape.rank, lora_alpha=shape.alpha, target_modules=f"({pattern})", lora_dropout=0.0),
        )
    except ValueError as error:
        raise _misfit("it lacks the adapter's layers") from error
    frozen = frozen_a(shape, parent.base_model)
    trained: dict[str, torch.nn.Parameter] = {}
    for name, layer in module.named_modules():
        if not hasattr(layer, "lora_B") or "default" not in layer.lora_B:
            continue
        found = re.search(r"(layers\.\d+)\.\w+\.(\w+)$", name)
        slot = f"{found[1]}.{found[2]}" if found else name
        a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        if slot not in frozen or a.shape != frozen[slot].shape or b.shape != parent.b[slot].shape:
            raise _misfit(f"its {slot} is not the adapter's")
        with torch.no_grad():
            a.copy_(torch.from_numpy(frozen[slot].copy()))
            b.copy_(torch.from_numpy(parent.b[slot].copy()))
        a.requires_grad_(False)
        trained[slot] = b
    if set(trained) != set(frozen):
        raise _misfit("it lacks some of the adapter's layers")
    return module, trained


def _misfit(why: str) -> TrainingFailed:
    return TrainingFailed(
        "The model on this device cannot be trained", why, "run: fedaigc-edge model export NAME"
    )
