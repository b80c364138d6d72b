"""Export a pulled model for serving: fp32 folder, ONNX graph, LoRA inputs, parity check, hashes.

Each step makes its folder under a hidden name and renames it when whole; model.json comes last. So a killed
export is finished by running the same command again.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fedaigc.canonical import Json
from fedaigc.errors import ModelError, StorageError
from fedaigc.files import folder_lock, sync_folder
from fedaigc_edge.model.architecture import ADAPTED, adapter_shape, architecture_of
from fedaigc_edge.model.content_hashes import folder_digest, hash_folder
from fedaigc_edge.model.hf_folder import make_hf_folder, tokens_of
from fedaigc_edge.model.parity import PROBE_TEXTS, check_parity
from fedaigc_edge.model.pull import Progress, origin_of
from fedaigc_edge.model.served_graph import (
    PLAIN_GRAPH,
    GraphPlan,
    best_precision,
    check_precision,
    make_served_graph,
)
from fedaigc_edge.model.store import (
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

RECIPE = 5
"""Raised when the same options give another graph, so that `model export` makes it again."""
EXPORT_LOG = "export.log"
_TOOLS = ("onnx", "onnxruntime", "onnxruntime-genai", "torch", "transformers")


@dataclass(frozen=True)
class ExportPlan:
    """How to export: precision of the graph ("": the best that the source allows); how many of the last
    layers take adapters, their rank, alpha and targets; after which layer the reward head reads (0: two
    thirds up)."""

    precision: str = ""
    lora_layers: int = 4
    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ADAPTED
    head_layer: int = 0

    def to_json(self) -> dict[str, Json]:
        """The plan as a JSON object."""
        return {**asdict(self), "targets": sorted(self.targets)}


def export(name: str, models_dir: Path, progress: Progress, plan: ExportPlan | None = None) -> ModelFolder:
    """Export the pulled model `name`; does nothing when it is already exported as planned and undamaged.

    Must run in the main thread. Raises ModelError, StorageError, FolderInUse.
    """
    plan = plan or ExportPlan()
    root = model_root(models_dir, name)
    if not (root / SOURCE).is_dir():
        raise ModelError(
            f"There is no model {name} in {models_dir}",
            "it was not pulled yet",
            f"run: fedaigc-edge model pull {name}",
        )
    plan = replace(plan, precision=plan.precision or best_precision(root / SOURCE))
    check_precision(root / SOURCE, plan.precision)
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
    if model.export.get("plan") == plan.to_json() and model.export.get("recipe") == RECIPE:
        return model
    progress("Exporting again: the options or the recipe differ, so the model will get another hash")
    return None


def _export_locked(root: Path, plan: ExportPlan, progress: Progress) -> ModelFolder:
    started = time.monotonic()
    source = root / SOURCE
    hashes = {f"{SOURCE}/{path}": digest for path, digest in hash_folder(source).items()}
    hf_hashes = _make_hf(root, progress)
    architecture = architecture_of(root / HF)
    shape = adapter_shape(architecture, plan.lora_layers, plan.rank, plan.alpha, plan.targets)
    if plan.head_layer > architecture.layers:
        raise ModelError(
            f"This model has {architecture.layers} layers",
            f"the reward head was to read layer {plan.head_layer}",
            "choose one of them",
        )
    (root / RECORD_FILE).unlink(missing_ok=True)

    progress(f"Building the {plan.precision} graph")
    served = _fresh(root / f".{ONNX}.part")
    head_layer = plan.head_layer or architecture.head_layer
    origin, family = origin_of(source)
    prompts = tokens_of(root / HF, PROBE_TEXTS)
    graph_plan = GraphPlan(
        source, family, root / HF, plan.precision, architecture, shape, head_layer, prompts
    )
    made = make_served_graph(graph_plan, served, root / EXPORT_LOG)

    progress("Checking that trained and served agree")
    plain, graph = served / PLAIN_GRAPH, served / GRAPH_FILE
    onnx_hashes = {path: digest for path, digest in hash_folder(served).items() if path != PLAIN_GRAPH}
    base_model = folder_digest(onnx_hashes)
    parity = check_parity(
        plain, graph, root / HF, shape, base_model, architecture, made.lora_inputs, head_layer
    )
    plain.unlink()
    _put_in_place(served, root / ONNX)
    hashes |= {f"{HF}/{path}": digest for path, digest in hf_hashes.items()}
    hashes |= {f"{ONNX}/{path}": digest for path, digest in onnx_hashes.items()}
    model = ModelFolder(
        name=root.name,
        root=root,
        base_model=base_model,
        shape=shape,
        lora_inputs=made.lora_inputs,
        head_layer=head_layer,
        head_dim=architecture.hidden,
        architecture=architecture,
        eos_tokens=made.eos_tokens,
        files=hashes,
        source={"origin": origin, "family": family},
        export={
            "plan": plan.to_json(),
            "recipe": RECIPE,
            "parity": asdict(parity),
            "tools": _tool_versions(),
            "seconds": round(time.monotonic() - started, 1),
        },
    )
    model.save()
    return model


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
