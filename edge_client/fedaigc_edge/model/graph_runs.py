"""Run a batching graph over whole prompts, for checks and measurements while exporting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.architecture import Architecture
from fedaigc_edge.model.batching_graph import LOGIT_ROWS, LOGITS
from fedaigc_edge.model.quiet_runtime import quiet_runtimes

_QUIET_LEVEL = 3
Prompts = Sequence[Sequence[int]]


def graph_logits(
    graph_file: Path,
    prompts: Prompts,
    architecture: Architecture,
    lora: Mapping[str, FloatArray] | None = None,
) -> FloatArray:
    """Logits after every token of every prompt, (tokens, vocabulary) float32; raises ModelError."""
    return _run(graph_file, prompts, architecture, [LOGITS], lora or {})[LOGITS]


def graph_values(
    graph_file: Path, prompts: Prompts, architecture: Architecture, names: Sequence[str]
) -> dict[str, FloatArray]:
    """Inner tensors for every token of every prompt, each (tokens, features); raises ModelError."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load(str(graph_file), load_external_data=False)
    outputs = {item.name for item in model.graph.output}
    for name in names:
        if name not in outputs:
            model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    # Beside the graph, because its weights are found from there.
    watched = graph_file.with_name(f".{graph_file.name}.watched")
    try:
        onnx.save(model, str(watched))
        return _run(watched, prompts, architecture, names, {})
    finally:
        watched.unlink(missing_ok=True)


def _run(
    graph_file: Path,
    prompts: Prompts,
    architecture: Architecture,
    names: Sequence[str],
    lora: Mapping[str, FloatArray],
) -> dict[str, FloatArray]:
    quiet_runtimes()
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = _QUIET_LEVEL
    try:
        session = ort.InferenceSession(str(graph_file), options, providers=["CPUExecutionProvider"])
        found = [session.run(list(names), _feeds(session, prompt, architecture, lora)) for prompt in prompts]
    except Exception as error:  # ORT raises a dozen unrelated classes
        raise ModelError(
            "The exported graph does not run",
            str(error)[:300],
            "install the versions of the constraints file",
        ) from error
    flat = {name: [values[place] for values in found] for place, name in enumerate(names)}
    return {name: np.concatenate([v.reshape(-1, v.shape[-1]) for v in each]) for name, each in flat.items()}


def _feeds(
    session: Any, prompt: Sequence[int], architecture: Architecture, lora: Mapping[str, FloatArray]
) -> dict[str, Any]:
    length = len(prompt)
    empty = np.zeros((1, architecture.kv_heads, 0, architecture.head_dim), dtype=np.float32)
    past = [item.name for item in session.get_inputs() if item.name.startswith("past_key_values.")]
    return {
        **lora,
        "input_ids": np.array([prompt], dtype=np.int64),
        "attention_mask": np.ones((1, length), dtype=np.int64),
        LOGIT_ROWS: np.arange(length, dtype=np.int64),
        **dict.fromkeys(past, empty),
    }
