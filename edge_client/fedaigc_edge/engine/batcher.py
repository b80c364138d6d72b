"""Continuous batching: each turn admits who waits, computes one piece of a prompt, and one token of every
answer.

A prompt is computed in pieces at batch 1, so that answers that are being written never wait longer than for
one piece; then every answer gets its next token in one batch. While one answer is alone, drafts looked up in
its own text are checked several tokens at a time. The batch is the run of slots from the first to the last
that is answering; a slot between them that is not computes a token that nobody reads, one place behind what
it holds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc.errors import FedaigcError, ModelError
from fedaigc_edge.engine.batching_window import BatchingWindow
from fedaigc_edge.engine.engine_counts import EngineCounts
from fedaigc_edge.engine.generator import Piece
from fedaigc_edge.engine.graph_session import Step, StepOutput
from fedaigc_edge.engine.job_line import JobLine
from fedaigc_edge.engine.kv_pool import KvPool
from fedaigc_edge.engine.running_answer import HandOver, Outcome, RunningAnswer
from fedaigc_edge.engine.slot_table import SlotTable
from fedaigc_edge.engine.speculation import Speculation

log = logging.getLogger(__name__)

CHUNK_ALONE = 256
"""Prompt tokens computed at once while no answer is being written: a cancelled one ends after these."""
CHUNK_BESIDE = 48
"""While answers are being written: each waits this long, about a tenth of a second on a small core."""
HIDDEN_HEAD, HIDDEN_LAST = "hidden.head", "hidden.last"


class Graph(Protocol):
    """What computes a step."""

    def run(self, step: Step, hidden: str | None = None) -> StepOutput:
        """See GraphSession."""
        ...


class Shelf(Protocol):
    """What gives a batch its adapters."""

    def stacked(self, names: Sequence[str | None]) -> Mapping[str, FloatArray]:
        """The graph's adapter inputs for rows under these adapters."""
        ...


def piece_end(start: int, length: int, most: int) -> int:
    """Where a prompt's next piece ends: at most `most` tokens on, and never with one token left.

    The runtime's attention rounds a token alone otherwise than the same token among others, so that pieces
    of one token would make an answer depend on who else was there.
    """
    end = min(start + most, length)
    return end - 1 if length - end == 1 else end


class Batcher:
    """The engine's turns. Everything here runs in the engine's thread.

    Args:
        graph, pool: what computes, and where keys and values lie.
        line: who waits.
        shelf: the adapters; every answer in line has acquired its own.
        speculation: drafts for an answer that is alone.
        window: when those who wait may join.
        on_end: told of every answer that has left the engine.
    """

    def __init__(
        self,
        graph: Graph,
        pool: KvPool,
        line: JobLine[RunningAnswer],
        shelf: Shelf,
        speculation: Speculation,
        window: BatchingWindow,
        on_end: Callable[[RunningAnswer], None],
    ) -> None:
        self.counts = EngineCounts()
        self._graph = graph
        self._line = line
        self._shelf = shelf
        self._speculation = speculation
        self._window = window
        self._stepped_at: float | None = None
        self._on_end = on_end
        self._slots = SlotTable(pool, self.counts)
        self._answers: list[RunningAnswer] = []
        self._over = HandOver()

    @property
    def idle(self) -> bool:
        """Whether no answer has a slot."""
        return not self._answers

    def turn(self) -> None:
        """Admit, compute, hand over. An answer whose step failed gets the error; the others go on."""
        self._drop_cancelled()
        self._admit()
        prefilling = [answer for answer in self._answers if answer.prefilling]
        if prefilling:
            beside = len(prefilling) < len(self._answers)
            self._attempt(prefilling[:1], lambda: self._prefill(prefilling[0], beside))
        writing = [answer for answer in self._answers if not answer.prefilling]
        self._note_token_time(bool(writing))
        if writing:
            alone = len(writing) == len(self._answers) == 1
            self._attempt(writing, lambda: self._write_alone(writing[0]) if alone else self._write(writing))
        self._over.send()

    def _note_token_time(self, writing: bool) -> None:
        now = time.monotonic()
        if writing and self._stepped_at is not None:
            self._window.note_token_time(now - self._stepped_at)
        self._stepped_at = now if writing else None

    def end_all(self) -> None:
        """Cancel every answer, also those in line."""
        for answer in (*self._answers, *self._line):
            answer.generation.cancelled = True
        self._drop_cancelled()
        self._over.send()

    def _drop_cancelled(self) -> None:
        for answer in [answer for answer in self._line if answer.generation.cancelled]:
            self._line.leave(answer)
            self._over.add(answer, answer.cut())
            self._on_end(answer)
        for answer in [answer for answer in self._answers if answer.generation.cancelled]:
            self._end(answer, answer.cut())

    def _admit(self) -> None:
        now = time.monotonic()
        if not self._window.may_admit(now, len(self._line), len(self._answers)):
            return
        waits = []
        while (answer := self._line.first()) is not None and self._slots.admit(answer):
            self._line.leave(answer)
            self._line.running += 1
            self._answers.append(answer)
            waits.append(answer.waited_s)
        if waits:
            self._window.admitted(now, waits)

    def _attempt(self, answers: Sequence[RunningAnswer], compute: Callable[[], None]) -> None:
        try:
            compute()
        except Exception as error:
            # Whatever it was, the callers must hear of it and the engine must go on.
            if not isinstance(error, FedaigcError):
                log.error("defect type=%s in=engine", type(error).__name__)
                error = ModelError("Generation failed", type(error).__name__, "report this: it is a defect")
            self.counts.failed += len(answers)
            for answer in answers:
                if not answer.ended:
                    self._end(answer, error)

    def _prefill(self, answer: RunningAnswer, beside: bool) -> None:
        start = answer.place
        end = piece_end(start, len(answer.job.prompt), CHUNK_BESIDE if beside else CHUNK_ALONE)
        tokens = answer.job.prompt[start:end]
        step = Step(
            answer.slot,
            np.array([tokens], np.int64),
            np.array([end], np.int64),
            np.array([len(tokens) - 1], np.int64),
            self._shelf.stacked((answer.job.adapter,)),
        )
        output = self._graph.run(step, HIDDEN_LAST if answer.embedding else None)
        self._slots.hold(answer.slot, list(tokens))
        answer.place = end
        self.counts.prefilled += len(tokens)
        if answer.embedding and output.hidden is not None:
            answer.add_hidden(output.hidden[0])
        if not answer.prefilling:
            if answer.embedding:
                self._end(answer, answer.cut("stop"))
            else:
                self._give(answer, answer.take([answer.sampler.choose(output.logits[0])]))

    def _write(self, writing: Sequence[RunningAnswer]) -> None:
        by_slot = {answer.slot: answer for answer in writing}
        first, last = min(by_slot), max(by_slot)
        rows = self._slots.rows[first : last + 1]
        tokens = np.zeros((len(rows), 1), np.int64)
        for slot, answer in by_slot.items():
            tokens[slot - first] = answer.last
        adapters = {answer.job.adapter for answer in writing}
        names = [row.adapter if len(adapters) > 1 else next(iter(adapters)) for row in rows]
        order = sorted(by_slot)
        step = Step(
            first,
            tokens,
            np.array([row.length + 1 for row in rows], np.int64),
            np.array([slot - first for slot in order], np.int64),
            self._shelf.stacked(names),
        )
        features = any(answer.job.features for answer in writing)
        output = self._graph.run(step, HIDDEN_HEAD if features else None)
        self.counts.steps += 1
        self.counts.step_rows += len(rows)
        for number, slot in enumerate(order):
            # One at a time: an answer that cannot go on in its grammar must not end the others.
            answer = by_slot[slot]
            self._attempt([answer], partial(self._advance, answer, output, number, slot - first))

    def _advance(self, answer: RunningAnswer, output: StepOutput, number: int, row: int) -> None:
        """Take one answer's part of a batch: its last token is in its slot now, and the next is chosen."""
        self._slots.hold(answer.slot, [answer.last])
        if answer.job.features and output.hidden is not None:
            answer.add_hidden(output.hidden[row])
        if answer.held_back is not None:
            self._end(answer, answer.held_back)
            return
        self._give(answer, answer.take([answer.sampler.choose(output.logits[number])]))

    def _write_alone(self, answer: RunningAnswer) -> None:
        draft = self._speculation.draft(answer) if answer.held_back is None else []
        started = time.perf_counter()
        if not draft:
            self._write([answer])
            self._speculation.note(answer, 0, 0, time.perf_counter() - started)
            return
        fed = [answer.last, *draft]
        length = self._slots.rows[answer.slot].length + len(fed)
        step = Step(
            answer.slot,
            np.array([fed], np.int64),
            np.array([length], np.int64),
            np.arange(len(fed), dtype=np.int64),
            self._shelf.stacked((answer.job.adapter,)),
        )
        output = self._graph.run(step)
        choices = []
        for place in range(len(fed)):
            choices.append(answer.sampler.choose(output.logits[place]))
            right = place < len(draft) and choices[-1].token == draft[place]
            if not right or answer.ends_with(choices):
                break
        accepted = min(len(choices) - 1, len(draft))
        self._slots.hold(answer.slot, fed[: len(choices)])
        self.counts.steps += 1
        self.counts.step_rows += 1
        self.counts.drafted += len(draft)
        self.counts.accepted += accepted
        self._speculation.note(answer, len(draft), accepted, time.perf_counter() - started)
        self._give(answer, answer.take(choices))

    def _give(self, answer: RunningAnswer, piece: Piece) -> None:
        self.counts.written += piece.tokens
        if piece.finish is None:
            self._over.add(answer, piece)
        elif answer.job.features:
            # One more step puts the last token's hidden state into the features.
            answer.held_back = piece
        else:
            self._end(answer, piece)

    def _end(self, answer: RunningAnswer, outcome: Outcome) -> None:
        answer.ended = True
        self._answers.remove(answer)
        self._slots.leave(answer.slot, broken=isinstance(outcome, Exception))
        self._line.running -= 1
        self._line.ended(answer.seconds)
        self._over.add(answer, outcome)
        self._on_end(answer)
