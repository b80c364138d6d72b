"""One ONNX Runtime session over a batching graph: tokens of some slots in, logits out, keys and values in
place.

Bindings are kept for each run of slots, because binding sixty arrays anew takes a tenth of a step. The
runtime lets go of Python's interpreter lock while it computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.quiet_runtime import quiet_runtimes

IntArray = npt.NDArray[np.int64]

MASK_STEP = 256
"""A decode step's mask grows in steps of this many tokens, so that it is bound anew that rarely."""
_QUIET_LEVEL = 3
_SESSION_ENTRIES = {
    # A step is a few milliseconds: threads that spin between steps would take the core from the event loop.
    "session.intra_op.allow_spinning": "0",
    "session.set_denormal_as_zero": "1",
}


@dataclass(frozen=True)
class Step:
    """What to compute: `tokens` (batch, length) for the slots from `first`, whose rows then hold `lengths`.

    `logit_rows` picks from the flattened (batch * length) positions those that get logits.
    """

    first: int
    tokens: IntArray
    lengths: IntArray
    logit_rows: IntArray
    lora: Mapping[str, FloatArray]


@dataclass(frozen=True)
class StepOutput:
    """`logits` (logit_rows, vocabulary), `hidden` (batch, length, hidden) if asked for; valid until the next
    step."""

    logits: FloatArray
    hidden: FloatArray | None


class GraphSession:
    """Runs steps. Used from one thread.

    Args:
        graph: the batching graph.
        arrays: two a layer, each (slots, kv_heads, row_tokens, head_dim).
        vocabulary, hidden: sizes of a row of logits and of a hidden state.
        threads: of one computation; 0 takes the number of physical cores.
    """

    def __init__(
        self, graph: Path, arrays: Sequence[FloatArray], vocabulary: int, hidden: int, threads: int = 0
    ) -> None:
        quiet_runtimes()
        import onnxruntime as ort

        ort.set_default_logger_severity(_QUIET_LEVEL)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _QUIET_LEVEL
        for key, value in _SESSION_ENTRIES.items():
            options.add_session_config_entry(key, value)
        try:
            self._session: Any = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            # The runtime raises a class of its own for each failure, none of them public.
            raise ModelError(
                "The model's graph cannot be loaded", _short(error), "run: fedaigc-edge model export"
            ) from error
        self._arrays = arrays
        self._vocabulary = vocabulary
        self._hidden = hidden
        self._positions = np.arange(arrays[0].shape[2], dtype=np.int64)
        self._bindings: dict[tuple[int, int, str | None], _Binding] = {}

    def run(self, step: Step, hidden: str | None = None) -> StepOutput:
        """Compute one step; `hidden` names the output of hidden states wanted with it.

        Raises ModelError when the runtime fails.
        """
        batch, length = step.tokens.shape
        # An output that is bound must fit every step, so steps that want it have a binding of their own.
        key = (step.first, batch, hidden)
        if key not in self._bindings:
            self._bindings[key] = _Binding(self._session, self._arrays, step.first, batch)
        binding = self._bindings[key]
        binding.give("input_ids", step.tokens)
        binding.give("attention_mask", self._mask(step, length))
        binding.give("logit_rows", step.logit_rows)
        for name, array in step.lora.items():
            binding.give_once(name, array)
        logits = binding.take("logits", (len(step.logit_rows), self._vocabulary))
        states = binding.take(hidden, (batch, length, self._hidden)) if hidden is not None else None
        try:
            binding.run(self._session)
        except Exception as error:
            raise ModelError("The model's graph failed", _short(error), "restart the device") from error
        return StepOutput(logits, states)

    def _mask(self, step: Step, length: int) -> IntArray:
        most = int(step.lengths.max())
        if length > 1:
            # A first chunk is told from a later one by its mask being exactly as long as its tokens.
            return np.ones((1, most), np.int64)
        total = min(-(-most // MASK_STEP) * MASK_STEP, len(self._positions))
        return (self._positions[:total] < step.lengths[:, None]).astype(np.int64)


class _Binding:
    """The runtime's binding for one run of slots, and the arrays that it points to."""

    def __init__(self, session: Any, arrays: Sequence[FloatArray], first: int, batch: int) -> None:
        self._io: Any = session.io_binding()
        self._given: dict[str, Any] = {}
        self._taken: dict[str, tuple[tuple[int, ...], FloatArray]] = {}
        for number, array in enumerate(arrays):
            rows = array[first : first + batch]
            layer, kind = divmod(number, 2)
            name = f"{layer}.{('key', 'value')[kind]}"
            self._bind_input(f"past_key_values.{name}", rows)
            self._io.bind_output(f"present.{name}", "cpu", 0, np.float32, rows.shape, rows.ctypes.data)

    def give(self, name: str, array: IntArray) -> None:
        """Bind an input, copying into the array bound before when the shape is the same."""
        before = self._given.get(name)
        if before is not None and before.shape == array.shape:
            np.copyto(before, array)
            return
        # A copy of our own: the next step writes into it.
        self._bind_input(name, np.array(array, order="C"))

    def give_once(self, name: str, array: FloatArray) -> None:
        """Bind an input that does not change, unless it is bound already."""
        if self._given.get(name) is not array:
            self._bind_input(name, array)

    def take(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """The array into which the output `name` is written."""
        known = self._taken.get(name)
        if known is not None and known[0] == shape:
            return known[1]
        array = np.empty(shape, np.float32)
        self._io.bind_output(name, "cpu", 0, np.float32, shape, array.ctypes.data)
        self._taken[name] = (shape, array)
        return array

    def run(self, session: Any) -> None:
        session.run_with_iobinding(self._io)

    def _bind_input(self, name: str, array: Any) -> None:
        self._io.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        self._given[name] = array


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"
