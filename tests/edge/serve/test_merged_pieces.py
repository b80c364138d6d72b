"""Several generations become one stream that loses nothing and keeps each one's order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from fedaigc.errors import ModelError
from fedaigc_edge.engine.generator import EngineTimes, Piece
from fedaigc_edge.serve.merged_pieces import Step, steps


class Timed:
    """A generation that gives a piece after each pause, in units of 5 ms, and then fails or ends."""

    cached_tokens = 0
    times = EngineTimes()
    features = None

    def __init__(self, pauses: Sequence[int], failure: Exception | None = None) -> None:
        self._pauses = pauses
        self._failure = failure

    def cancel(self) -> None: ...

    async def __aiter__(self) -> AsyncIterator[Piece]:
        for number, pause in enumerate(self._pauses):
            await asyncio.sleep(pause * 0.005)
            yield Piece(str(number), 1)
        if self._failure is not None:
            raise self._failure


def collected(*generations: Timed) -> list[Step]:
    async def scenario() -> list[Step]:
        return [step async for step in steps(generations)]

    return asyncio.run(scenario())


@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_generations_pieces_come_in_order(count: int) -> None:
    made = collected(*(Timed([number % 3, 0, 1, 0]) for number in range(count)))
    for number in range(count):
        assert [piece.text for step in made for n, piece in step if n == number] == ["0", "1", "2", "3"]
    assert all(made)


def test_what_comes_at_one_moment_is_one_step() -> None:
    made = collected(Timed([0, 4, 4]), Timed([0, 4, 4]), Timed([0, 4, 4]))
    assert [len(step) for step in made] == [3, 3, 3]


def test_what_came_before_a_failure_is_given_first() -> None:
    async def scenario() -> list[Step]:
        made: list[Step] = []
        with pytest.raises(ModelError):
            async for step in steps([Timed([0, 0], ModelError("x")), Timed([0, 100])]):
                made.append(step)
        return made

    made = asyncio.run(scenario())
    assert [piece.text for step in made for n, piece in step if n == 0] == ["0", "1"]


def test_no_task_is_left_behind_when_the_reader_leaves() -> None:
    async def scenario() -> int:
        merged = steps([Timed([0] * 9), Timed([0, 100])])
        async for _ in merged:
            break
        await merged.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)
        return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1
