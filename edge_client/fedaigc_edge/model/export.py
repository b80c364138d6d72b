"""Export a pulled model for serving: fp32 folder, ONNX graph, LoRA inputs, parity check, hashes.

Each step makes its folder under a hidden name and renames it when whole; model.json comes last. So a killed
export is finished by running the same command again.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from fedaigc.adapter import AdapterShape
from fedaigc.canonical import Json
from fedaigc.errors import ModelError, StorageError
from fedaigc.files import folder_lock, sync_folder
from fedaigc_edge.model.architecture import Architecture, adapter_shape, architecture_of
from fedaigc_edge.model.batching_graph import make_batching_graph
from fedaigc_edge.model.content_hashes import folder_digest, hash_folder
from fedaigc_edge.model.fine_activations import refine_activations
from fedaigc_edge.model.graph_builder import PRECISIONS, build_graph, eos_tokens_of
from fedaigc_edge.model.hf_folder import make_hf_folder
from fedaigc_edge.model.lora_inputs import add_lora_inputs
from fedaigc_edge.model.lora_layout import LoraPair
from fedaigc_edge.model.parity import check_parity
from fedaigc_edge.model.pull import Progress, origin_of
from fedaigc_edge.model.shared_embedding import DATA_FILE, share_embedding
from fedaigc_edge.model.store import (
    BATCH_GRAPH_FILE,
    GRAPH_FILE,
    HF,
    ONNX,
    RECORD_FILE,
    SOURCE,
    ModelFolder,
    model_root,
    open_model,
    read_record,
)

RECIPE = 3
"""Raised when the same options give another graph, so that `model export` makes it again."""
PLAIN_GRAPH = "plain.onnx"
_BUILT_GRAPH = "built.onnx"
EXPORT_LOG = "export.log"
_TOOLS = ("onnx", "onnxruntime", "onnxruntime-genai", "torch", "transformers")


@dataclass(frozen=True)
class ExportPlan:
    """How to export: precision of the graph; how many of the last layers take adapters; their rank and
    alpha."""

    precision: str = "int8"
    lora_layers: int = 4
    rank: int = 8
    alpha: float = 16.0


def export(name: str, models_dir: Path, progress: Progress, plan: ExportPlan | None = None) -> ModelFolder:
    """Export the pulled model `name`; does nothing when it is already exported as planned and undamaged.

    Must run in the main thread. Raises ModelError, StorageError, FolderInUse.
    """
    plan = plan or ExportPlan()
    if plan.precision not in PRECISIONS:
        raise ModelError(
            f"Unknown precision {plan.precision}", f"known are {', '.join(PRECISIONS)}", "use one"
        )
    root = model_root(models_dir, name)
    if not (root / SOURCE).is_dir():
        raise ModelError(
            f"There is no model {name} in {models_dir}",
            "it was not pulled yet",
            f"run: fedaigc-edge model pull {name}",
        )
    with folder_lock(root):
        done = _already(models_dir, name, plan, progress)
        if done is not None:
            return done
        try:
            return _export_locked(root, plan, progress)
        except OSError as error:
            raise StorageError(
                f"Cannot write to {root}", error.strerror or str(error), "free some space and run it again"
            ) from error


def _already(models_dir: Path, name: str, plan: ExportPlan, progress: Progress) -> ModelFolder | None:
    try:
        model = open_model(models_dir, name)
        model.verify(HF)
    except ModelError:
        return None
    if model.export.get("plan") == asdict(plan) and model.export.get("recipe") == RECIPE:
        return model
    progress("Exporting again: the options or the recipe differ, so the model will get another hash")
    return None


def _export_locked(root: Path, plan: ExportPlan, progress: Progress) -> ModelFolder:
    started = time.monotonic()
    source = root / SOURCE
    hashes = {f"{SOURCE}/{path}": digest for path, digest in hash_folder(source).items()}
    hf_hashes = _make_hf(root, progress)
    architecture = architecture_of(root / HF)
    shape = adapter_shape(architecture, plan.lora_layers, plan.rank, plan.alpha)
    (root / RECORD_FILE).unlink(missing_ok=True)

    progress(f"Building the {plan.precision} graph")
    served = _fresh(root / f".{ONNX}.part")
    build_graph(root / HF, served, plan.precision, root / EXPORT_LOG)
    if architecture.tied:
        _share(served, root)
    pairs = _make_graphs(served, shape, architecture)

    progress("Checking that trained and served agree")
    plain, graph = served / PLAIN_GRAPH, served / BATCH_GRAPH_FILE
    onnx_hashes = {path: digest for path, digest in hash_folder(served).items() if path != PLAIN_GRAPH}
    base_model = folder_digest(onnx_hashes)
    parity = check_parity(plain, graph, root / HF, shape, base_model, architecture, pairs)
    plain.unlink()
    _put_in_place(served, root / ONNX)
    hashes |= {f"{HF}/{path}": digest for path, digest in hf_hashes.items()}
    hashes |= {f"{ONNX}/{path}": digest for path, digest in onnx_hashes.items()}
    model = ModelFolder(
        name=root.name,
        root=root,
        base_model=base_model,
        shape=shape,
        lora_inputs=pairs,
        head_layer=architecture.head_layer,
        head_dim=architecture.hidden,
        architecture=architecture,
        eos_tokens=eos_tokens_of(root / ONNX),
        files=hashes,
        source=dict(zip(("origin", "family"), origin_of(source), strict=True)),
        export={
            "plan": asdict(plan),
            "recipe": RECIPE,
            "parity": asdict(parity),
            "tools": _tool_versions(),
            "seconds": round(time.monotonic() - started, 1),
        },
    )
    model.save()
    return model


def _make_graphs(served: Path, shape: AdapterShape, architecture: Architecture) -> tuple[LoraPair, ...]:
    """From the builder's graph: model.onnx, batch.onnx and, for the parity check, the latter without LoRA."""
    built, plain, first = served / _BUILT_GRAPH, served / PLAIN_GRAPH, min(s.layer for s in shape.slots)
    make_batching_graph(
        served / GRAPH_FILE, built, architecture.head_layer, architecture.layers, architecture.hidden
    )
    refine_activations(served / GRAPH_FILE, plain, first)
    add_lora_inputs(plain, served / GRAPH_FILE, shape, architecture)
    refine_activations(built, plain, first)
    built.unlink()
    return add_lora_inputs(plain, served / BATCH_GRAPH_FILE, shape, architecture)


def _make_hf(root: Path, progress: Progress) -> dict[str, str]:
    """Make hf/ unless a whole one is there; returns its hashes."""
    target = root / HF
    if target.is_dir():
        found = hash_folder(target)
        if _recorded(root).items() <= {f"{HF}/{k}": v for k, v in found.items()}.items():
            return found
        shutil.rmtree(target)
    progress("Reading the weights")
    part = _fresh(root / f".{HF}.part")
    make_hf_folder(root / SOURCE, part)
    found = hash_folder(part)
    _put_in_place(part, target)
    return found


def _recorded(root: Path) -> dict[str, str]:
    try:
        files = read_record(root).files
    except ModelError:
        return {}
    return {path: digest for path, digest in files.items() if path.startswith(f"{HF}/")}


def _share(served: Path, root: Path) -> None:
    shared = _fresh(root / ".shared.part")
    shared.mkdir()
    if share_embedding(served / GRAPH_FILE, shared / GRAPH_FILE):
        for name in (DATA_FILE, GRAPH_FILE):
            (shared / name).replace(served / name)
    shutil.rmtree(shared)


def _fresh(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    return path


def _put_in_place(part: Path, target: Path) -> None:
    for path in part.rglob("*"):
        if path.is_file():
            _sync_file(path)
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)
    sync_folder(target.parent)


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _tool_versions() -> dict[str, Json]:
    return {name: importlib.metadata.version(name) for name in _TOOLS}
