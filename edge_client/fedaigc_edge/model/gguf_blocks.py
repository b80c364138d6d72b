"""Read a GGUF file's quantised matrices as they are stored, without rounding them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.families import missing_extra

BLOCK = 32
"""Weights that share a scale, along a row."""
EXACT_KINDS = ("Q4_1", "Q8_0")
_HALF = 2
"""Bytes of a scale."""


@dataclass(frozen=True)
class Blocks:
    """A matrix as scale * (code - zero) + offset, in blocks of 32 along each row.

    `codes` (rows, blocks, 32) uint8 below 2**bits, `scales` (rows, blocks) float32, `offsets` like `scales`
    or None when all are 0; `zero` is 2**(bits - 1).
    """

    bits: int
    codes: npt.NDArray[np.uint8]
    scales: FloatArray
    offsets: FloatArray | None

    @property
    def zero(self) -> int:
        """The code of a weight that equals its block's offset."""
        return 1 << (self.bits - 1)

    def dense(self) -> FloatArray:
        """The matrix itself, (rows, columns) float32."""
        whole = (self.codes.astype(np.float32) - np.float32(self.zero)) * self.scales[..., None]
        if self.offsets is not None:
            whole += self.offsets[..., None]
        return whole.reshape(len(whole), -1)

    def columns(self, numbers: Sequence[int]) -> FloatArray:
        """Some columns without their offsets, (numbers, rows) float32."""
        places = np.asarray(numbers)
        codes = self.codes[:, places // BLOCK, places % BLOCK].astype(np.float32) - np.float32(self.zero)
        columns: FloatArray = (codes * self.scales[:, places // BLOCK]).T
        return columns

    def unpermuted(self, heads: int) -> Blocks:
        """Rows in Hugging Face's order; a converter of Llama models interleaves each head's two halves."""
        order = np.arange(len(self.codes)).reshape(heads, -1, 2).swapaxes(1, 2).ravel()
        offsets = None if self.offsets is None else self.offsets[order]
        return Blocks(self.bits, self.codes[order], self.scales[order], offsets)

    def packed(self) -> npt.NDArray[np.uint8]:
        """The codes as the runtime's kernel reads them, (rows, blocks, bytes of a block)."""
        if self.bits == 8:
            return self.codes
        low, high = self.codes[..., 0::2], self.codes[..., 1::2]
        return (low | (high << 4)).astype(np.uint8)


def stacked(parts: list[Blocks]) -> Blocks:
    """Matrices below one another, as a fused product needs them; raises ModelError when kinds differ."""
    if len({(part.bits, part.offsets is None) for part in parts}) != 1:
        raise _not_exact("matrices that belong together are of different types")
    offsets = [part.offsets for part in parts if part.offsets is not None]
    return Blocks(
        parts[0].bits,
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.scales for part in parts]),
        np.concatenate(offsets) if offsets else None,
    )


class GgufBlocks:
    """The quantised matrices of one file, by GGUF's names."""

    def __init__(self, path: Path) -> None:
        try:
            from gguf import GGUFReader
        except ImportError as error:
            raise missing_extra(error) from error
        try:
            self._tensors: dict[str, Any] = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
        except (ValueError, KeyError, IndexError, OSError, OverflowError) as error:
            raise ModelError(
                f"{path} is a damaged GGUF file", type(error).__name__, "fetch it again"
            ) from error

    def has(self, name: str) -> bool:
        """Whether the file holds a matrix of this name."""
        return name in self._tensors

    def inexact(self) -> list[str]:
        """Each matrix that cannot be served exactly, with its type."""
        matrices = [tensor for tensor in self._tensors.values() if len(tensor.shape) > 1]
        kinds = [(str(tensor.name), self.kind(tensor.name)) for tensor in matrices]
        return [f"{name} ({kind})" for name, kind in kinds if kind not in EXACT_KINDS]

    def kind(self, name: str) -> str:
        """The matrix's type, "Q4_1" say; "" when there is none of this name."""
        return str(self._tensors[name].tensor_type.name) if name in self._tensors else ""

    def read(self, name: str) -> Blocks:
        """The matrix; raises ModelError when it is missing or not of EXACT_KINDS."""
        kind = self.kind(name)
        if kind not in EXACT_KINDS:
            raise _not_exact(f"{name} is of type {kind}" if kind else f"{name} is missing")
        tensor = self._tensors[name]
        columns, rows = (int(size) for size in tensor.shape)
        raw = np.asarray(tensor.data).reshape(rows, columns // BLOCK, -1)
        scales = _halves(raw[..., :_HALF])
        if kind == "Q8_0":
            codes = (raw[..., _HALF:].view(np.int8).astype(np.int16) + 128).astype(np.uint8)
            return Blocks(8, codes, scales, None)
        # Q4_1: weight = scale * code + minimum; the first 16 weights are the low halves of the bytes.
        nibbles = raw[..., 2 * _HALF :]
        codes = np.concatenate([nibbles & 15, nibbles >> 4], axis=-1)
        offsets = _halves(raw[..., _HALF : 2 * _HALF]) + np.float32(8) * scales
        return Blocks(4, codes, scales, offsets)


def _halves(raw: npt.NDArray[np.uint8]) -> FloatArray:
    values: FloatArray = np.ascontiguousarray(raw).view(np.float16)[..., 0].astype(np.float32)
    return values


def _not_exact(why: str) -> ModelError:
    return ModelError(
        "This model's weights cannot be served exactly",
        f"{why}; exact are GGUF files of {' and '.join(EXACT_KINDS)}",
        "export with --precision int8",
    )
