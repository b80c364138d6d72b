"""Turn an adapter into the file that ORT loads while it serves, and prove that the file says the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedaigc.adapter import Adapter
from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError, StorageError, VerificationFailed
from fedaigc.files import sync_folder
from fedaigc_edge.model.lora_layout import graph_inputs
from fedaigc_edge.model.quiet_runtime import quiet_runtimes
from fedaigc_edge.model.store import ModelFolder

_FORMAT_VERSION = 1


def export_adapter(adapter: Adapter, model: ModelFolder, path: Path) -> None:
    """Write `adapter` to `path` as an `.onnx_adapter` for the model's graph, alpha / rank folded into B.

    The file is read back and compared before it gets its name. Raises VerificationFailed when the adapter
    is for another model or shape, ModelError when the runtime refuses, StorageError.
    """
    check_fits(adapter, model)
    inputs = graph_inputs(adapter, model.lora_inputs)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write(temporary, inputs)
        if not _reads_back(temporary, inputs):
            raise ModelError("The adapter file reads back differently", "", "check the disk")
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"Cannot write {path}", error.strerror or "", "free some space") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_fits(adapter: Adapter, model: ModelFolder) -> None:
    """Raise VerificationFailed unless the adapter was trained on this model and has its shape."""
    if adapter.base_model != model.base_model:
        raise VerificationFailed(
            "This adapter is for another base model",
            f"it names {adapter.base_model[:16]}, this device serves {model.base_model[:16]}",
            "serve the model that the federation uses: fedaigc-edge model list",
        )
    if adapter.shape != model.shape:
        raise VerificationFailed(
            "This adapter has another shape than the model's graph",
            "its rank, alpha or layers differ",
            "export the model with the federation's --rank, --alpha and --lora-layers",
        )


def _write(path: Path, inputs: Mapping[str, FloatArray]) -> None:
    quiet_runtimes()
    import onnxruntime as ort

    file = ort.AdapterFormat()
    file.set_adapter_version(_FORMAT_VERSION)
    file.set_model_version(_FORMAT_VERSION)
    file.set_parameters({name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()})
    path.touch()
    try:
        file.export_adapter(str(path))
    except Exception as error:  # ORT raises a dozen unrelated classes
        raise StorageError(f"Cannot write {path}", type(error).__name__, "free some space") from error
    with path.open("rb") as written:
        os.fsync(written.fileno())


def read_adapter_inputs(path: Path) -> dict[str, FloatArray]:
    """The graph inputs that an `.onnx_adapter` file holds: input name -> float32 array; raises ModelError."""
    quiet_runtimes()
    import onnxruntime as ort

    try:
        found = ort.AdapterFormat.read_adapter(str(path)).get_parameters()
        # Copied: the runtime's arrays point into the file's memory.
        return {name: np.array(value.numpy(), dtype=np.float32) for name, value in found.items()}
    except Exception as error:  # ORT raises a dozen unrelated classes
        raise ModelError(
            "The adapter file cannot be read back", type(error).__name__, "check the disk"
        ) from error


def _reads_back(path: Path, inputs: Mapping[str, FloatArray]) -> bool:
    found = read_adapter_inputs(path)
    return set(found) == set(inputs) and all(
        np.array_equal(found[name], array) for name, array in inputs.items()
    )
