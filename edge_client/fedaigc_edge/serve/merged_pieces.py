"""Several generations as one stream of steps: what came at one moment comes together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from fedaigc_edge.engine.generator import Generation, Piece

Step = list[tuple[int, Piece]]
"""Pieces with the number of the generation that each is of; never empty."""


async def steps(generations: Sequence[Generation]) -> AsyncIterator[Step]:
    """Everything that the generations give, until all have ended; raises what the first to fail raises."""
    if len(generations) == 1:
        # The common case needs no task and no queue.
        async for piece in generations[0]:
            yield [(0, piece)]
        return
    queue: asyncio.Queue[tuple[int, Piece | Exception | None]] = asyncio.Queue()
    tasks = [asyncio.create_task(_pump(each, number, queue)) for number, each in enumerate(generations)]
    running = len(tasks)
    try:
        while running:
            step: Step = []
            failure: Exception | None = None
            items = [await queue.get()]
            while not queue.empty():
                items.append(queue.get_nowait())
            for number, item in items:
                if isinstance(item, Piece):
                    step.append((number, item))
                else:
                    running -= 1
                    failure = failure or item
            if step:
                yield step
            if failure is not None:
                raise failure
    finally:
        for task in tasks:
            task.cancel()


async def _pump(
    generation: Generation, number: int, queue: asyncio.Queue[tuple[int, Piece | Exception | None]]
) -> None:
    try:
        async for piece in generation:
            queue.put_nowait((number, piece))
    except Exception as error:
        queue.put_nowait((number, error))
    else:
        queue.put_nowait((number, None))
