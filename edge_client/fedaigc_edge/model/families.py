"""Which model families we can export, and how to tell the family of a file or folder before using it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedaigc.canonical import Json, parse_record
from fedaigc.errors import ModelError, VerificationFailed

FAMILIES: Mapping[str, str] = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
"""Family -> its architecture in Hugging Face's config.json; GGUF files name the family itself."""

CONFIG_FILE = "config.json"
MAX_CONFIG_BYTES = 4 << 20
_GGUF_MAGIC = b"GGUF"


def family_of(source: Path) -> str:
    """The family of a GGUF file or a Hugging Face folder.

    Raises ModelError when it is neither, or of a family that we cannot export.
    """
    return _family_of_folder(source) if source.is_dir() else _family_of_gguf(source)


def read_config(folder: Path) -> dict[str, Json]:
    """The folder's config.json; raises ModelError."""
    path = folder / CONFIG_FILE
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise ModelError(f"{path} is too large for a model's config", "", "give the right folder")
        return parse_record(path.read_bytes(), MAX_CONFIG_BYTES)
    except OSError as error:
        raise ModelError(
            f"{folder} is not a Hugging Face model folder",
            f"{CONFIG_FILE}: {error.strerror}",
            "give a folder with config.json, tokenizer.json and *.safetensors, or a .gguf file",
        ) from error
    except VerificationFailed as error:
        raise ModelError(f"{path} cannot be read", error.what, "fetch the model again") from error


def _family_of_folder(folder: Path) -> str:
    config = read_config(folder)
    family = config.get("model_type")
    if FAMILIES.get(str(family)) not in (config.get("architectures") or []):
        raise _unknown_family(folder, str(family))
    return str(family)


def _family_of_gguf(path: Path) -> str:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_GGUF_MAGIC))
    except OSError as error:
        raise ModelError(f"Cannot read {path}", error.strerror or "", "check the path") from error
    if magic != _GGUF_MAGIC:
        raise ModelError(
            f"{path} is not a model",
            "it is neither a GGUF file nor a Hugging Face folder",
            "give one of these, or a known name such as smollm2-135m",
        )
    family = _gguf_architecture(path)
    if family not in FAMILIES:
        raise _unknown_family(path, family)
    return family


def _gguf_architecture(path: Path) -> str:
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise missing_extra(error) from error
    try:
        field = GGUFReader(path).fields["general.architecture"]
        return str(field.contents())
    except (ValueError, KeyError, IndexError, OSError, UnicodeDecodeError, OverflowError) as error:
        raise ModelError(f"{path} is a damaged GGUF file", type(error).__name__, "fetch it again") from error


def missing_extra(error: ImportError) -> ModelError:
    """What to say when a package of the extra `train` is not installed."""
    return ModelError(
        "This needs packages that are not installed",
        f"{error.name} is missing",
        "run: pip install 'fedaigc[edge,train]'",
    )


def _unknown_family(source: Path, family: str) -> ModelError:
    return ModelError(
        f"{source.name} is of the family {family}, which cannot be exported",
        f"known families are {', '.join(FAMILIES)} (SmolLM2 and Llama 2 and 3 are llama)",
        "choose a model of these families",
    )
