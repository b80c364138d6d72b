"""An adapter with random numbers, as a file that the engine loads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedaigc.adapter import Adapter
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.policy.adapter_export import export_adapter


def write_random_adapter(model: ModelFolder, path: Path, seed: int, scale: float) -> Path:
    """Write an adapter whose B has standard deviation `scale` to `path`, and return that.

    A scale of 1 changes what the model says; at 1e-6 it costs as much and says the same.
    """
    random = np.random.default_rng(seed)
    rank = model.shape.rank
    b = {
        slot.name: np.float32(scale) * random.standard_normal((slot.out_features, rank), np.float32)
        for slot in model.shape.slots
    }
    export_adapter(Adapter(model.shape, model.base_model, b), model, path)
    return path
