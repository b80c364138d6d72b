"""Adapters as a graph's input arrays: one for a whole batch, or one for each of its rows."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.lora_layout import LoraPair

Inputs = Mapping[str, FloatArray]
"""Input name -> float32 array: A (rows, in_features, rank) and B (rows, rank, out_features)."""


def no_adapter(pairs: Sequence[LoraPair]) -> Inputs:
    """What makes the graph the base model: zeros of rank 1."""
    zeros: dict[str, FloatArray] = {}
    for pair in pairs:
        zeros[pair.a] = np.zeros((1, pair.in_features, 1), np.float32)
        zeros[pair.b] = np.zeros((1, 1, pair.out_features), np.float32)
    return zeros


def checked_inputs(arrays: Mapping[str, FloatArray], pairs: Sequence[LoraPair]) -> Inputs:
    """An adapter's arrays as (1, ., .), contiguous; raises ModelError when they are not for these inputs."""
    if set(arrays) != {name for pair in pairs for name in (pair.a, pair.b)}:
        raise _misfit("it is for other inputs")
    inputs: dict[str, FloatArray] = {}
    for pair in pairs:
        a, b = (_three(arrays[name]) for name in (pair.a, pair.b))
        if a.shape[1] != pair.in_features or b.shape[2] != pair.out_features or a.shape[2] != b.shape[1]:
            raise _misfit("an array has another shape")
        inputs[pair.a], inputs[pair.b] = a, b
    return inputs


def bytes_of(inputs: Inputs) -> int:
    """The memory that the arrays take."""
    return sum(array.nbytes for array in inputs.values())


class AdapterRows:
    """Arrays with an adapter for each row, written anew only where a row has changed.

    Answers come and go one at a time, and copying eight adapters takes as long as a decode step.
    """

    def __init__(self, none: Inputs) -> None:
        self._none = none
        self._arrays: dict[str, FloatArray] = {}
        self._views: dict[int, Inputs] = {}
        # What each row holds; keeps an adapter that was put out alive until its row is written again.
        self._rows: list[Inputs] = []
        self.bytes = 0
        """The memory that the arrays take."""

    def stacked(self, rows: Sequence[Inputs]) -> Inputs:
        """(rows, ., .) arrays, row i holding `rows[i]`, zeros where its rank is shorter. Valid until the next
        call; the same objects as long as they are large enough, so that they need not be bound anew."""
        if len(rows) in self._views and all(map(operator.is_, rows, self._rows)):
            return self._views[len(rows)]
        kinds = list({id(row): row for row in rows}.values())
        shapes = {name: (len(rows), *_largest([kind[name] for kind in kinds])) for name in self._none}
        if any(not _holds(self._arrays.get(name), shape) for name, shape in shapes.items()):
            self._arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
            self._views, self._rows = {}, [{}] * len(rows)
            self.bytes = bytes_of(self._arrays)
        for place, inputs in enumerate(rows):
            if self._rows[place] is not inputs:
                self._write(place, inputs)
        if len(rows) not in self._views:
            self._views[len(rows)] = {name: array[: len(rows)] for name, array in self._arrays.items()}
        return self._views[len(rows)]

    def _write(self, place: int, inputs: Inputs) -> None:
        for name, array in self._arrays.items():
            _, height, width = inputs[name].shape
            array[place, height:], array[place, :, width:] = 0.0, 0.0
            array[place, :height, :width] = inputs[name][0]
        self._rows[place] = inputs


def _largest(arrays: Sequence[FloatArray]) -> tuple[int, int]:
    return max(array.shape[1] for array in arrays), max(array.shape[2] for array in arrays)


def _holds(array: FloatArray | None, shape: tuple[int, ...]) -> bool:
    # A rank that is too large would do: but then every step computes its zeros.
    return array is not None and array.shape[0] >= shape[0] and array.shape[1:] == shape[1:]


def _three(array: FloatArray) -> FloatArray:
    array = np.ascontiguousarray(array, dtype=np.float32)
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[0] != 1:
        raise _misfit("an array has another shape")
    return array


def _misfit(why: str) -> ModelError:
    return ModelError(
        "An adapter file does not fit this model's graph", why, "export the model and the policy anew"
    )
