"""Make the fp32 Hugging Face folder that training reads, from a GGUF file or another folder; run it for
parity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedaigc.adapter import Adapter
from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.families import missing_extra
from fedaigc_edge.model.quiet_runtime import quiet_runtimes

WEIGHTS_FILE = "model.safetensors"
_OUTPUT_WEIGHT = "lm_head.weight"


def gguf_in(source: Path) -> Path | None:
    """The GGUF file of a source folder, or None when it holds Hugging Face files."""
    return next(iter(sorted(source.glob("*.gguf"))), None)


def make_hf_folder(source: Path, target: Path) -> None:
    """Write config, tokenizer with chat template and fp32 safetensors of `source` to the new folder `target`.

    A quantised GGUF is dequantised, so that training and serving start from the same numbers. Never runs code
    that a model brings along. Raises ModelError.
    """
    target.mkdir(parents=True)
    try:
        model, tokenizer = _load(source)
        _save(model, tokenizer, target)
    except ImportError as error:
        raise missing_extra(error) from error
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise ModelError(
            "This model cannot be read", f"{type(error).__name__}: {str(error)[:300]}", "fetch it again"
        ) from error


def _load(source: Path) -> tuple[Any, Any]:
    transformers = _transformers()
    import torch

    options: dict[str, Any] = {"local_files_only": True}
    gguf = gguf_in(source)
    if gguf is not None:
        options["gguf_file"] = gguf.name
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
    if gguf is not None and hasattr(transformers, "GgufConfig"):
        # Newer versions would otherwise keep GGUF's blocks where a kernel for them is installed.
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    if gguf is None:
        options["use_safetensors"] = True  # never a pickle
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, **options)
    return model, tokenizer


def _save(model: Any, tokenizer: Any, target: Path) -> None:
    from safetensors.torch import save_file

    config = model.config
    config.architectures = [type(model).__name__]
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    weights = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    if config.tie_word_embeddings:
        weights.pop(_OUTPUT_WEIGHT, None)
    save_file(weights, target / WEIGHTS_FILE, metadata={"format": "pt"})
    config.save_pretrained(target)
    model.generation_config.save_pretrained(target)
    tokenizer.save_pretrained(target)


def tokens_of(hf: Path, texts: Sequence[str]) -> list[list[int]]:
    """The token ids of each text, without special tokens around it."""
    tokenizer = _transformers().AutoTokenizer.from_pretrained(hf, local_files_only=True)
    return [list(tokenizer.encode(text, add_special_tokens=False)) for text in texts]


class TorchReference:
    """The fp32 model in PyTorch: what an export is compared with."""

    def __init__(self, hf: Path) -> None:
        transformers = _transformers()
        import torch

        self._model = transformers.AutoModelForCausalLM.from_pretrained(
            hf, dtype=torch.float32, local_files_only=True, use_safetensors=True
        )
        self._model.eval()

    def logits(self, prompts: Sequence[Sequence[int]], adapter: Adapter | None = None) -> FloatArray:
        """Logits after every token of every prompt, (tokens, vocabulary) float32, with the adapter's product
        added."""
        import torch

        changes = adapter.products() if adapter is not None else {}
        with torch.no_grad():
            self._add(changes, 1.0)
            try:
                rows = [self._model(torch.tensor([list(prompt)])).logits[0].numpy() for prompt in prompts]
            finally:
                self._add(changes, -1.0)
        return np.concatenate(rows).astype(np.float32)

    def hidden(self, prompts: Sequence[Sequence[int]]) -> FloatArray:
        """Hidden states after each decoder layer for every token, (layers, tokens, hidden) float32."""
        import torch

        layers = self._model.get_decoder().layers
        found: list[list[FloatArray]] = [[] for _ in layers]

        def keep(place: int) -> Any:
            def hook(module: Any, given: Any, output: Any) -> None:
                states = output[0] if isinstance(output, tuple) else output
                found[place].append(states.reshape(-1, states.shape[-1]).numpy().copy())

            return hook

        hooks = [layer.register_forward_hook(keep(place)) for place, layer in enumerate(layers)]
        try:
            with torch.no_grad():
                for prompt in prompts:
                    self._model(torch.tensor([list(prompt)]))
        finally:
            for hook in hooks:
                hook.remove()
        return np.stack([np.concatenate(states) for states in found])

    def weight_norms(self, slots: Sequence[str]) -> dict[str, float]:
        """The Frobenius norm of each slot's base weight."""
        return {slot: float(self._weight(slot).detach().norm()) for slot in slots}

    def _weight(self, slot: str) -> Any:
        layer, projection = slot.removeprefix("layers.").split(".")
        return getattr(self._model.model.layers[int(layer)].self_attn, projection).weight

    def _add(self, changes: dict[str, FloatArray], sign: float) -> None:
        import torch

        for slot, change in changes.items():
            self._weight(slot).add_(torch.from_numpy(change), alpha=sign)


def _transformers() -> Any:
    quiet_runtimes()
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers
