"""A graph whose next token depends on every token that lies in a row, so that any wrong row shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc_edge.engine.detokeniser import TokenBytes
from fedaigc_edge.engine.graph_session import Step, StepOutput
from fedaigc_edge.engine.kv_pool import KvPool, KvShape

VOCABULARY = 97
END = 1
TEXT = TokenBytes(
    {token: f"{token} ".encode() for token in range(VOCABULARY)} | {END: b""}, frozenset(), VOCABULARY
)
SHAPE = KvShape(layers=1, kv_heads=1, head_dim=2)


def next_token(tokens: Sequence[int], adapter: int = 0) -> int:
    """What the graph says after `tokens`: never END before 8 tokens."""
    value = adapter * 31
    for token in tokens:
        value = (value * 33 + int(token) + 7) % 1_000_003
    token = value % VOCABULARY
    return token if token != END else 2


def answer_to(prompt: Sequence[int], length: int, adapter: int = 0) -> list[int]:
    """What an answer of `length` tokens must be."""
    tokens = list(prompt)
    for _ in range(length):
        tokens.append(next_token(tokens, adapter))
    return tokens[len(prompt) :]


class CountingGraph:
    """Keeps tokens in the pool's first array, as a real graph keeps keys."""

    def __init__(self, pool: KvPool) -> None:
        self.keys = pool.arrays[0]
        self.steps: list[Step] = []
        self.fail_next: Exception | None = None

    def run(self, step: Step, hidden: str | None = None) -> StepOutput:
        """One step, as GraphSession does it."""
        self.steps.append(step)
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            raise error
        batch, length = step.tokens.shape
        assert batch == 1 or length == 1, "the runtime takes several tokens at batch 1 only"
        adapters = np.broadcast_to(step.lora["adapter"], (batch, 1))
        rows = []
        for row in range(batch):
            start = int(step.lengths[row]) - length
            for place in range(length):
                self.keys[step.first + row, 0, start + place, 0] = step.tokens[row, place]
                seen = self.keys[step.first + row, 0, : start + place + 1, 0].astype(int).tolist()
                rows.append(next_token(seen, int(adapters[row, 0])))
        logits = np.zeros((len(step.logit_rows), VOCABULARY), np.float32)
        for number, row in enumerate(step.logit_rows):
            logits[number, rows[row]] = 1.0
        states = np.repeat(step.tokens[:, :, None].astype(np.float32), 3, axis=2) if hidden else None
        return StepOutput(logits, states)


class NumberShelf:
    """Adapters named by a number, which the graph adds to what it says."""

    def __init__(self) -> None:
        self.released: list[str] = []

    def stacked(self, names: Sequence[str | None]) -> Mapping[str, FloatArray]:
        """A column of numbers."""
        return {"adapter": np.array([[float(name or 0)] for name in names], np.float32)}
