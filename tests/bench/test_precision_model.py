from __future__ import annotations

import numpy as np

from bench.precision_model import PrecisionModel
from fedaigc_edge.model.hf_folder import TorchReference
from fedaigc_edge.model.store import ModelFolder

WINDOW = np.arange(20, 60)


def test_losses_and_choices_are_those_of_torch(tiny_model: ModelFolder) -> None:
    import torch

    logits = torch.from_numpy(TorchReference(tiny_model.hf).logits([WINDOW.tolist()]))
    said = PrecisionModel(tiny_model, len(WINDOW)).read(WINDOW)
    expected = torch.nn.functional.cross_entropy(logits[:-1], torch.from_numpy(WINDOW[1:]), reduction="none")
    np.testing.assert_allclose(said.losses, expected, atol=1e-3)
    np.testing.assert_array_equal(said.top, logits[:-1].argmax(-1))
    assert said.hidden.shape == (len(WINDOW), tiny_model.head_dim)


def test_a_token_takes_time_and_the_export_has_a_size(tiny_model: ModelFolder) -> None:
    model = PrecisionModel(tiny_model, len(WINDOW))
    assert model.decode_s(3) > 0
    assert model.size_mb > 0.1
