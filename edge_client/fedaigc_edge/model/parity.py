"""The gate on an export: the served graph must say what the trained model says, with and without an
adapter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedaigc.adapter import Adapter, AdapterShape
from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.architecture import Architecture
from fedaigc_edge.model.batching_graph import HIDDEN_HEAD
from fedaigc_edge.model.graph_runs import graph_logits, graph_values
from fedaigc_edge.model.hf_folder import TorchReference, tokens_of
from fedaigc_edge.model.lora_layout import LoraPair, graph_inputs

LEAST_BASE_COSINE = 0.9
"""Of centred logits, fp32 against the export: on SmolLM2, q41-exact 0.9996, int8 0.999 and 4-bit 0.97."""
LEAST_CHANGE_COSINE = 0.9
"""Of the logit change that one adapter causes in both. A wrong slot, scale sign or order gives about 0. On
SmolLM2, q41-exact gives 0.957 to 0.985, int8 0.999, and 8-bit activations left as they are 0.75."""
LEAST_SCALE, MOST_SCALE = 0.8, 1.25
"""The served change may be this much smaller or larger than the trained one; alpha applied twice gives 2."""

PROBE_STRENGTH = 0.05
"""The probe adapter's product has this share of the base weight's norm: as small as private updates are."""
PROBE_SEED = 20261201

PROBE_TEXTS = (
    "The capital of France is",
    "Please summarise the following letter in one sentence:",
    "To be or not to be, that is",
    "def add(a, b):\n    return",
    "今天的天气很好,我们",
    "Water boils at a temperature of",
    "Dear Sir or Madam, thank you for",
    "1, 2, 3, 4, 5,",
)


@dataclass(frozen=True)
class Parity:
    """What the check found: cosines of logits, the served change's relative size, and top-1 agreement, 0 to
    1."""

    base_cosine: float
    base_top1: float
    change_cosine: float
    change_scale: float


def check_parity(
    built: Path,
    served: Path,
    hf: Path,
    shape: AdapterShape,
    base_model: str,
    architecture: Architecture,
    pairs: Sequence[LoraPair],
    head_layer: int,
) -> Parity:
    """Compare the graph before (`built`) and after (`served`) it got LoRA inputs, and both with `hf` in
    PyTorch.

    Raises ModelError, saying which of the comparisons failed.
    """
    reference = TorchReference(hf)
    prompts = tokens_of(hf, PROBE_TEXTS)
    states = graph_values(served, prompts, architecture, [HIDDEN_HEAD])[HIDDEN_HEAD]
    _check_head(states, reference.hidden(prompts), head_layer)
    plain = graph_logits(built, prompts, architecture)
    base = graph_logits(served, prompts, architecture)
    if not np.array_equal(plain, base):
        raise _refused(
            "without an adapter, the graph with LoRA inputs gives other logits than the one without"
        )
    probe = probe_adapter(shape, base_model, reference)
    adapted = graph_logits(served, prompts, architecture, graph_inputs(probe, pairs))
    torch_base = reference.logits(prompts)
    torch_change = reference.logits(prompts, probe) - torch_base
    return _judged(base, torch_base, adapted - base, torch_change)


def _check_head(served: FloatArray, trained: FloatArray, head_layer: int) -> None:
    """Refuse a graph whose reward head would read another layer than it is trained on."""
    # Of directions: a few tokens have states a hundred times longer than the rest, and would decide alone.
    mine = _directions(served)
    distances = [float(np.linalg.norm(mine - _directions(states))) for states in trained]
    nearest = int(np.argmin(distances)) + 1
    if nearest != head_layer:
        raise _refused(f"the reward head would read layer {nearest}, and it is trained on layer {head_layer}")


def _directions(states: FloatArray) -> FloatArray:
    unit: FloatArray = states / np.maximum(np.linalg.norm(states, axis=-1, keepdims=True), 1e-30)
    return unit


def probe_adapter(shape: AdapterShape, base_model: str, reference: TorchReference) -> Adapter:
    """A fixed random adapter, strong enough to be seen through quantisation noise."""
    random = np.random.default_rng(PROBE_SEED)
    norms = reference.weight_norms([slot.name for slot in shape.slots])
    arrays = {
        slot.name: random.standard_normal((slot.out_features, shape.rank)).astype(np.float32)
        for slot in shape.slots
    }
    products = Adapter(shape, base_model, arrays).products()
    scaled = {
        name: array
        * np.float32(PROBE_STRENGTH * norms[name] / max(float(np.linalg.norm(products[name])), 1e-12))
        for name, array in arrays.items()
    }
    return Adapter(shape, base_model, scaled)


def _judged(base: FloatArray, torch_base: FloatArray, change: FloatArray, torch_change: FloatArray) -> Parity:
    found = Parity(
        base_cosine=_cosine(_centred(base), _centred(torch_base)),
        base_top1=float((base.argmax(-1) == torch_base.argmax(-1)).mean()),
        change_cosine=_cosine(change, torch_change),
        change_scale=float(np.linalg.norm(change) / max(float(np.linalg.norm(torch_change)), 1e-12)),
    )
    if not found.base_cosine >= LEAST_BASE_COSINE:
        raise _refused(f"its logits differ from the source's, cosine {found.base_cosine:.3f}")
    if not found.change_cosine >= LEAST_CHANGE_COSINE:
        raise _refused(
            f"an adapter changes its logits otherwise than in training, cosine {found.change_cosine:.3f}"
        )
    if not LEAST_SCALE <= found.change_scale <= MOST_SCALE:
        raise _refused(f"an adapter changes its logits {found.change_scale:.2f} times as much as in training")
    return found


def _centred(logits: FloatArray) -> FloatArray:
    # Softmax ignores a constant, so it must not count towards the cosine either.
    centred: FloatArray = logits - logits.mean(-1, keepdims=True)
    return centred


def _cosine(first: FloatArray, second: FloatArray) -> float:
    a, b = first.astype(np.float64).ravel(), second.astype(np.float64).ravel()
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-30))


def _refused(why: str) -> ModelError:
    return ModelError(
        "The export was refused: trained and served do not agree",
        why,
        "export with --precision int8, and with the versions of the constraints file",
    )
