"""On a real, tiny model: what one step gives must not depend on who else is in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.engine.adapter_rows import no_adapter
from fedaigc_edge.engine.graph_session import GraphSession, Step
from fedaigc_edge.engine.kv_pool import KvPool, KvShape
from fedaigc_edge.model.store import ModelFolder

PROMPT = [11, 7, 19, 3, 23, 5, 31, 17, 29, 13, 41, 37]


class Session:
    """A graph session over the tiny model with four slots."""

    def __init__(self, model: ModelFolder) -> None:
        sizes = model.architecture
        shape = KvShape(sizes.layers, sizes.kv_heads, sizes.head_dim)
        self.pool = KvPool(shape, 4, sizes.context, 1 << 30)
        self.graph = GraphSession(model.batch_graph, self.pool.arrays, sizes.vocabulary, sizes.hidden, 1)
        self.lora = no_adapter(model.lora_inputs)

    def prefill(self, slot: int, tokens: Sequence[int], pieces: Sequence[int]) -> FloatArray:
        start = 0
        for size in pieces:
            end = start + size
            logits: FloatArray = self.run(slot, [tokens[start:end]], [end], [size - 1])
            start = end
        last: FloatArray = logits[0]
        return last

    def run(
        self, first: int, tokens: Sequence[Sequence[int]], lengths: Sequence[int], rows: Sequence[int]
    ) -> FloatArray:
        step = Step(
            first,
            np.array(tokens, np.int64),
            np.array(lengths, np.int64),
            np.array(rows, np.int64),
            self.lora,
        )
        return self.graph.run(step).logits.copy()


@pytest.fixture(scope="module")
def session(tiny_model: ModelFolder) -> Session:
    return Session(tiny_model)


def test_logits_are_those_of_torch(session: Session, tiny_model: ModelFolder) -> None:
    network = AutoModelForCausalLM.from_pretrained(tiny_model.hf, dtype=torch.float32)
    with torch.no_grad():
        reference = network(torch.tensor([PROMPT])).logits[0, -1].numpy()
    assert np.allclose(session.prefill(0, PROMPT, [len(PROMPT)]), reference, atol=2e-3)


def test_a_prompt_in_pieces_gives_the_same_bits(session: Session) -> None:
    whole = session.prefill(0, PROMPT, [12])
    for pieces in ([6, 6], [4, 4, 4], [2] * 6, [9, 3]):
        assert np.array_equal(session.prefill(1, PROMPT, pieces), whole), pieces


def test_a_row_of_a_batch_gives_the_same_bits_as_alone(session: Session) -> None:
    for slot in range(4):
        session.prefill(slot, PROMPT[: 4 + slot], [4 + slot])
    alone = [session.run(slot, [[50 + slot]], [5 + slot], [0])[0] for slot in range(4)]
    together = session.run(0, [[50], [51], [52], [53]], [5, 6, 7, 8], [0, 1, 2, 3])
    for slot in range(4):
        assert np.array_equal(together[slot], alone[slot])


def test_only_the_chosen_rows_get_logits_in_the_order_asked_for(session: Session) -> None:
    every = session.run(0, [PROMPT], [12], list(range(12)))
    assert every.shape[0] == 12
    some = session.run(0, [PROMPT], [12], [7, 2])
    assert np.allclose(some, every[[7, 2]], atol=1e-5)


def test_hidden_states_come_only_with_the_steps_that_ask_for_them(
    session: Session, tiny_model: ModelFolder
) -> None:
    step = Step(0, np.array([PROMPT]), np.array([12]), np.array([11]), session.lora)
    for name in ("hidden.head", "hidden.last"):
        states = session.graph.run(step, name).hidden
        assert states is not None
        assert states.shape == (1, 12, tiny_model.architecture.hidden)
        assert session.graph.run(step).hidden is None


def test_a_damaged_graph_is_a_clear_error(tmp_path: Path, session: Session) -> None:
    damaged = tmp_path / "batch.onnx"
    damaged.write_bytes(b"not a graph")
    with pytest.raises(ModelError, match="fedaigc-edge model export"):
        GraphSession(damaged, session.pool.arrays, 10, 4)
