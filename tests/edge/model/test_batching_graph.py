from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from fedaigc.adapter import Adapter
from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.model.batching_graph import HIDDEN_HEAD, HIDDEN_LAST, LOGIT_ROWS, make_batching_graph
from fedaigc_edge.model.graph_builder import build_graph
from fedaigc_edge.model.lora_layout import graph_inputs
from fedaigc_edge.model.store import GRAPH_FILE, ModelFolder
from tests.edge.model.test_lora_inputs import adapter_of
from tests.tiny_model import HEAD_DIM, HIDDEN, KV_HEADS, LAYERS, VOCABULARY

PROMPT = (40, 41, 42, 43, 44, 45)
OUTPUTS = ("logits", HIDDEN_HEAD, HIDDEN_LAST)


@pytest.fixture(scope="module")
def session(tiny_model: ModelFolder) -> Any:
    import onnxruntime as ort

    return ort.InferenceSession(str(tiny_model.batch_graph), providers=["CPUExecutionProvider"])


def run(
    session: Any,
    tokens: Sequence[Sequence[int]],
    rows: Sequence[int],
    lora: dict[str, FloatArray] | None = None,
) -> list[FloatArray]:
    batch, length = np.shape(tokens)
    feeds = {
        "input_ids": np.array(tokens, np.int64),
        "attention_mask": np.ones((batch, length), np.int64),
        LOGIT_ROWS: np.array(rows, np.int64),
    }
    empty = np.zeros((batch, KV_HEADS, 0, HEAD_DIM), np.float32)
    past = {f"past_key_values.{n}.{kind}": empty for n in range(LAYERS) for kind in ("key", "value")}
    found: list[FloatArray] = session.run(list(OUTPUTS), {**feeds, **past, **(lora or {})})
    return found


def test_chosen_rows_are_those_of_the_flattened_batch(session: Any) -> None:
    other = tuple(reversed(PROMPT))
    logits, *_ = run(session, [PROMPT, other], [0, 5, 11, 5])
    assert logits.shape == (4, VOCABULARY)
    np.testing.assert_array_equal(logits[1], logits[3])
    np.testing.assert_allclose(logits[1], run(session, [PROMPT], [5])[0][0], atol=1e-5)
    np.testing.assert_allclose(logits[2], run(session, [other], [5])[0][0], atol=1e-5)


def test_hidden_states_and_logits_are_those_of_torch(session: Any, tiny_model: ModelFolder) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_model.hf, dtype=torch.float32)
    with torch.no_grad():
        expected = model(torch.tensor([PROMPT]), output_hidden_states=True)
    logits, head, last = run(session, [PROMPT], range(len(PROMPT)))
    assert head.shape == last.shape == (1, len(PROMPT), HIDDEN)
    np.testing.assert_allclose(logits, expected.logits[0], atol=1e-4)
    np.testing.assert_allclose(last, expected.hidden_states[-1], atol=1e-4)
    # hidden_states[0] is the embedding, so [1] is after the first decoder layer.
    assert tiny_model.head_layer == 1
    np.testing.assert_allclose(head, expected.hidden_states[1], atol=1e-4)


def test_each_row_of_a_batch_can_have_an_adapter_of_its_own(session: Any, tiny_model: ModelFolder) -> None:
    adapters: list[Adapter | None] = [adapter_of(tiny_model, 1.0), None, adapter_of(tiny_model, 0.5)]
    zero = Adapter.zero(tiny_model.shape, tiny_model.base_model)
    sets = [graph_inputs(adapter or zero, tiny_model.lora_inputs) for adapter in adapters]
    stacked = {name: np.concatenate([one[name] for one in sets]) for name in sets[0]}
    together = run(session, [PROMPT] * 3, [5, 11, 17], stacked)[0]
    for row, (one, adapter) in enumerate(zip(sets, adapters, strict=True)):
        alone = run(session, [PROMPT], [5], one if adapter else None)[0][0]
        np.testing.assert_allclose(together[row], alone, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 0.1


def test_one_adapter_can_serve_every_row(session: Any, tiny_model: ModelFolder) -> None:
    lora = graph_inputs(adapter_of(tiny_model, 1.0), tiny_model.lora_inputs)
    logits = run(session, [PROMPT, PROMPT], [5, 11], lora)[0]
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-5)


def test_the_head_may_read_after_the_last_layer(tiny_model: ModelFolder, tmp_path: Path) -> None:
    import onnxruntime as ort
    import torch
    from transformers import AutoModelForCausalLM

    served = tmp_path / "onnx"
    build_graph(tiny_model.hf, served, "fp32", tmp_path / "log")
    make_batching_graph(served / GRAPH_FILE, served / "last.onnx", LAYERS, LAYERS, HIDDEN)
    session = ort.InferenceSession(str(served / "last.onnx"), providers=["CPUExecutionProvider"])
    head = run(session, [PROMPT], [0])[1]
    decoder = AutoModelForCausalLM.from_pretrained(tiny_model.hf, dtype=torch.float32).get_decoder()
    kept: list[Any] = []
    decoder.layers[LAYERS - 1].register_forward_hook(lambda module, args, output: kept.append(output))
    with torch.no_grad():
        decoder(torch.tensor([PROMPT]))
    np.testing.assert_allclose(head, kept[0].reshape(head.shape), atol=1e-4)


def test_a_graph_of_another_form_is_a_model_error(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["logits"])], "g", [value], [value])
    onnx.save(helper.make_model(graph), str(tmp_path / "x.onnx"))
    with pytest.raises(ModelError, match="expected form"):
        make_batching_graph(tmp_path / "x.onnx", tmp_path / "y.onnx", 1, 2, 64)
