from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fedaigc_edge.engine.engine_counts import EngineCounts
from fedaigc_edge.engine.generator import Job
from fedaigc_edge.engine.kv_pool import KvPool
from fedaigc_edge.engine.running_answer import EngineGeneration, RunningAnswer
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.engine.slot_table import SlotTable
from fedaigc_edge.engine.token_sampler import TokenSampler
from tests.edge.engine.counting_graph import END, SHAPE, TEXT, VOCABULARY


def _answer(prompt: Sequence[int], tokens: int = 10, embedding: bool = False) -> RunningAnswer:
    async def go() -> RunningAnswer:
        job = Job(tuple(prompt), Sampling(tokens, temperature=0))
        sampler = TokenSampler(job.sampling, job.prompt, VOCABULARY)
        generation = EngineGeneration(lambda: None)
        return RunningAnswer(job, sampler, TEXT, frozenset({END}), generation, embedding=embedding)

    return asyncio.run(go())


def _table(slots: int = 2, row: int = 100, tokens: int = 150) -> tuple[SlotTable, KvPool]:
    pool = KvPool(SHAPE, slots, row, tokens * SHAPE.bytes_per_token)
    return SlotTable(pool, EngineCounts()), pool


def _finish(table: SlotTable, answer: RunningAnswer) -> None:
    table.hold(answer.slot, list(answer.job.prompt)[answer.reused :])
    table.leave(answer.slot)


def test_an_answer_without_room_waits_and_gets_it_when_another_leaves() -> None:
    table, pool = _table()
    first, second = _answer(range(60), 30), _answer(range(100, 160), 30)
    assert table.admit(first)
    assert not table.admit(second)
    _finish(table, first)
    assert table.admit(second)
    assert pool.promised_bytes <= pool.limit_bytes


def test_kept_prompts_are_given_up_longest_unused_first() -> None:
    table, _ = _table(slots=3, tokens=160)
    old, new = _answer(range(2, 52)), _answer(range(60, 110))
    for answer in (old, new):
        assert table.admit(answer)
        _finish(table, answer)
    assert table.admit(_answer(range(120, 180), 30))
    again = _answer([*range(60, 110), 1, 1])
    assert table.admit(again)
    assert again.reused == 50


def test_an_embedding_computes_its_whole_prompt() -> None:
    table, _ = _table()
    first, second = _answer(range(2, 50)), _answer(range(2, 50), embedding=True)
    assert table.admit(first)
    _finish(table, first)
    assert table.admit(second)
    assert second.reused == 0


def test_what_a_failed_step_left_is_forgotten() -> None:
    table, pool = _table()
    first = _answer(range(2, 50))
    assert table.admit(first)
    table.hold(first.slot, list(range(2, 50)))
    table.leave(first.slot, broken=True)
    assert pool.promised_bytes == pool.held_bytes == 0
    second = _answer(range(2, 50))
    assert table.admit(second)
    assert second.reused == 0
