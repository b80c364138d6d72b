"""The model store: one folder a model, found again by name and opened only when its hashes still hold.

<models>/<name>/source/     what was pulled: a GGUF file or Hugging Face files, and origin.json
<models>/<name>/hf/         fp32 weights and tokenizer, for training
<models>/<name>/onnx/       the served graph with LoRA inputs, its weights and tokenizer
<models>/<name>/model.json  hashes, adapter shape and how it was exported; written last
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedaigc.adapter import AdapterShape
from fedaigc.canonical import Json, canonical_bytes, parse_record
from fedaigc.errors import ModelError, VerificationFailed
from fedaigc.fields import Fields
from fedaigc.files import write_atomic
from fedaigc_edge.model.architecture import Architecture
from fedaigc_edge.model.content_hashes import folder_digest, hash_folder
from fedaigc_edge.model.lora_layout import MAX_PAIRS, LoraPair

RECORD_FILE = "model.json"
SOURCE, HF, ONNX = "source", "hf", "onnx"
GRAPH_FILE = "model.onnx"
RECORD_VERSION = 3
MAX_EOS_TOKENS = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_KEYS = (
    "v",
    "name",
    "base_model",
    "source",
    "files",
    "shape",
    "lora_inputs",
    "head_layer",
    "head_dim",
    "architecture",
    "eos_tokens",
    "export",
)


@dataclass(frozen=True)
class ModelFolder:
    """One exported model. `base_model` is the BLAKE3 that names it everywhere: in policies, rounds and the
    ledger.

    `head_layer` and `head_dim` are the reward head's; the attention's sizes are in `architecture`. An answer
    ends at any of `eos_tokens`.
    """

    name: str
    root: Path
    base_model: str
    shape: AdapterShape
    lora_inputs: tuple[LoraPair, ...]
    head_layer: int
    head_dim: int
    architecture: Architecture
    eos_tokens: tuple[int, ...]
    files: Mapping[str, str] = field(repr=False)
    source: Mapping[str, Json] = field(repr=False)
    export: Mapping[str, Json] = field(repr=False)

    @property
    def onnx(self) -> Path:
        """What is served: graph, weights and tokenizer; `base_model` is its hash."""
        return self.root / ONNX

    @property
    def batch_graph(self) -> Path:
        """The graph that the engine runs."""
        return self.onnx / GRAPH_FILE

    @property
    def hf(self) -> Path:
        """The fp32 Hugging Face folder that training loads."""
        return self.root / HF

    def save(self) -> None:
        """Write model.json atomically; the model counts as exported from then on. Raises StorageError."""
        record = {
            "v": RECORD_VERSION,
            "name": self.name,
            "base_model": self.base_model,
            "source": dict(self.source),
            "files": dict(self.files),
            "shape": self.shape.to_json(),
            "lora_inputs": [pair.to_json() for pair in self.lora_inputs],
            "head_layer": self.head_layer,
            "head_dim": self.head_dim,
            "architecture": self.architecture.to_json(),
            "eos_tokens": list(self.eos_tokens),
            "export": dict(self.export),
        }
        write_atomic(self.root / RECORD_FILE, canonical_bytes(record))

    def verify(self, *folders: str) -> None:
        """Hash `folders` (default: onnx) again; raises ModelError naming the first file that differs."""
        for folder in folders or (ONNX,):
            prefix = folder + "/"
            recorded = {k.removeprefix(prefix): v for k, v in self.files.items() if k.startswith(prefix)}
            found = hash_folder(self.root / folder)
            if found != recorded or not found:
                changed = sorted(set(found.items()) ^ set(recorded.items()))
                raise _damaged(self.name, f"{prefix}{changed[0][0] if changed else ''} is missing or changed")


def model_root(models_dir: Path, name: str) -> Path:
    """Where a model of this name lives; raises ModelError for a name that is no plain folder name."""
    if not _NAME.fullmatch(name):
        raise ModelError(
            "Not a model name",
            "a name has letters, digits, dots and dashes, lower case",
            "give another --name",
        )
    return models_dir.expanduser() / name


def open_model(models_dir: Path, name: str) -> ModelFolder:
    """The exported model `name`, its onnx/ folder hashed again.

    Raises ModelError when it is not there, not exported or changed since, with the command that mends it.
    """
    root = model_root(models_dir, name)
    if not (root / SOURCE).is_dir() and not (root / RECORD_FILE).is_file():
        known = ", ".join(item["name"] for item in list_models(models_dir)) or "none yet"
        raise ModelError(
            f"There is no model {name} in {models_dir}",
            f"models here: {known}",
            f"run: fedaigc-edge model pull {name} && fedaigc-edge model export {name}",
        )
    model = read_record(root)
    model.verify()
    if folder_digest(hash_folder(model.onnx)) != model.base_model:
        raise _damaged(name, "its hashes do not make up its base_model")
    return model


def read_record(root: Path) -> ModelFolder:
    """Read model.json without hashing anything; raises ModelError when it is missing or damaged."""
    path = root / RECORD_FILE
    try:
        record = parse_record(path.read_bytes())
        if record.get("v") != RECORD_VERSION and "base_model" in record:
            raise ModelError(
                f"The model {root.name} was exported by another version of this program",
                f"its record has version {record.get('v')}, this program reads {RECORD_VERSION}",
                f"export it again: fedaigc-edge model export {root.name}",
            )
        return _from_record(root, record)
    except FileNotFoundError:
        raise ModelError(
            f"The model {root.name} is not exported yet",
            f"{RECORD_FILE} is missing",
            f"run: fedaigc-edge model export {root.name}",
        ) from None
    except (OSError, VerificationFailed) as error:
        raise _damaged(root.name, f"{RECORD_FILE}: {error}") from error


def _from_record(root: Path, record: dict[str, Json]) -> ModelFolder:
    fields = Fields(record, RECORD_FILE)
    fields.only(*_KEYS)
    files = fields.inner("files").record
    hashes = Fields(files, "files")
    return ModelFolder(
        name=root.name,
        root=root,
        base_model=fields.hexadecimal("base_model"),
        shape=AdapterShape.from_json(record["shape"]),
        lora_inputs=tuple(LoraPair.from_json(item) for item in fields.listed("lora_inputs", MAX_PAIRS)),
        head_layer=fields.integer("head_layer", 0),
        head_dim=fields.integer("head_dim", 1),
        architecture=Architecture.from_json(record["architecture"]),
        eos_tokens=tuple(_tokens(fields.listed("eos_tokens", MAX_EOS_TOKENS))),
        files={path: hashes.hexadecimal(path) for path in files},
        source=fields.inner("source").record,
        export=fields.inner("export").record,
    )


def _tokens(items: list[Json]) -> list[int]:
    return [Fields({"token": item}, "eos_tokens").integer("token") for item in items]


def list_models(models_dir: Path) -> list[dict[str, Json]]:
    """Every model in the store, sorted by name: name, state ("exported" or "pulled"), base_model and size
    in bytes."""
    folder = models_dir.expanduser()
    rows: list[dict[str, Json]] = []
    for root in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not _NAME.fullmatch(root.name) or not (root / SOURCE).is_dir():
            continue
        try:
            base_model: str | None = read_record(root).base_model
        except ModelError:
            base_model = None
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        state = "exported" if base_model else "pulled"
        rows.append({"name": root.name, "state": state, "base_model": base_model, "bytes": size})
    return rows


def _damaged(name: str, why: str) -> ModelError:
    return ModelError(
        f"The model {name} is damaged", why, f"export it again: fedaigc-edge model export {name}"
    )
