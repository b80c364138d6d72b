"""Named float32 arrays as bytes and back (safetensors): no pickle, sizes known before any allocation."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedaigc.canonical import Json, canonical_bytes, parse_canonical, parse_record
from fedaigc.errors import VerificationFailed

FloatArray = npt.NDArray[np.float32]

MAX_ARRAY_BYTES = 64 << 20
"""No adapter, reward head or update is larger; bigger ones are refused before they are parsed."""

MAX_DIRECTORY_BYTES = 1 << 20
_ABOUT = "fedaigc"
_LENGTH = struct.Struct("<Q")


def arrays_to_bytes(arrays: Mapping[str, FloatArray], about: Mapping[str, Json]) -> bytes:
    """One safetensors file; equal arrays and `about` give equal bytes, so that they can be named by hash."""
    # One metadata key only: safetensors does not promise an order for several.
    metadata = {_ABOUT: canonical_bytes(dict(about)).decode("utf-8")}
    ordered = {name: np.ascontiguousarray(arrays[name], dtype=np.float32) for name in sorted(arrays)}
    return save(ordered, metadata=metadata)


def arrays_from_bytes(
    data: bytes, limit: int = MAX_ARRAY_BYTES
) -> tuple[dict[str, FloatArray], dict[str, Json]]:
    """The arrays and `about` of a safetensors file of at most `limit` bytes.

    Raises VerificationFailed for anything but finite float32 arrays and our own metadata.
    """
    about, dtypes = _directory(data, limit)
    if set(dtypes.values()) - {"F32"}:
        raise _damaged("an array is not float32")
    try:
        arrays = load(data)
    except (SafetensorError, ValueError, OverflowError) as error:
        raise _damaged(type(error).__name__) from None
    for array in arrays.values():
        if not np.isfinite(array).all():
            raise _damaged("an array holds a number that is not finite")
        array.setflags(write=False)
    return arrays, about


def _directory(data: bytes, limit: int) -> tuple[dict[str, Json], dict[str, str]]:
    if not _LENGTH.size <= len(data) <= limit:
        raise _damaged(f"{len(data)} bytes, limit {limit}")
    (length,) = _LENGTH.unpack_from(data)
    if length > min(MAX_DIRECTORY_BYTES, len(data) - _LENGTH.size):
        raise _damaged("its directory is longer than allowed")
    directory = parse_record(data[_LENGTH.size : _LENGTH.size + length], MAX_DIRECTORY_BYTES)
    metadata = directory.pop("__metadata__", None)
    if not isinstance(metadata, dict) or set(metadata) != {_ABOUT} or not isinstance(metadata[_ABOUT], str):
        raise _damaged("it does not carry our metadata")
    about = parse_canonical(metadata[_ABOUT].encode("utf-8", "surrogatepass"), MAX_DIRECTORY_BYTES)
    if not all(isinstance(entry, dict) for entry in directory.values()):
        raise _damaged("its directory is malformed")
    return about, {name: str(entry.get("dtype")) for name, entry in directory.items()}


def _damaged(why: str) -> VerificationFailed:
    return VerificationFailed("Arrays cannot be read", why, "fetch the file again, or send a correct one")
