"""A thousand hot swaps under load: every answer is one policy's answer, whole."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path

import pytest

from bench.random_adapter import write_random_adapter
from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.engine.batching_generator import BatchingGenerator, EngineSettings
from fedaigc_edge.engine.generator import Generator, Job
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.policy.hot_swap import ActivePolicy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SWAPS = 1000
CALLERS = 6
TOKENS = 12
TEXTS = ("the quick brown fox", "a policy is", "an adapter", "reward head", "over the lazy dog")


async def answer(generator: Generator, text: str, adapter: str | None) -> str:
    (generation,) = generator.start(
        [Job(tuple(generator.encode(text)), Sampling(TOKENS, temperature=0.0), adapter)]
    )
    pieces = [piece async for piece in generation]
    assert pieces[-1].finish in {"stop", "length"}
    return "".join(piece.text for piece in pieces)


def test_a_thousand_swaps_under_load_fail_nothing_and_mix_nothing(
    tiny_model: ModelFolder, tmp_path: Path
) -> None:
    adapters = [
        write_random_adapter(tiny_model, tmp_path / f"{seed}.onnx_adapter", seed, 1.0) for seed in (1, 2)
    ]
    generator = BatchingGenerator(tiny_model, EngineSettings(slots=4, waiting=32, threads=1))
    try:
        asyncio.run(_swap_under_load(generator, adapters))
    finally:
        generator.close()


async def _swap_under_load(generator: BatchingGenerator, adapters: list[Path]) -> None:
    references = await _references(generator, adapters)
    active = ActivePolicy(generator)
    active.swap(PolicyVersion(1), adapters[1])
    ended = asyncio.Event()
    served: Counter[int] = Counter()

    async def call(number: int) -> None:
        for turn in itertools.count(number):
            if ended.is_set():
                return
            text = TEXTS[turn % len(TEXTS)]
            with active.lease() as policy:
                got = await answer(generator, text, policy.adapter_name)
            # Odd versions have one adapter, even ones the other.
            assert got == references[policy.version % 2][text], f"mixed under version {policy.version}"
            served[int(policy.version)] += 1

    callers = [asyncio.create_task(call(number)) for number in range(CALLERS)]
    try:
        for version in range(2, SWAPS + 2):
            await asyncio.to_thread(active.swap, PolicyVersion(version), adapters[version % 2])
    finally:
        ended.set()
        await asyncio.gather(*callers)
    assert active.current.version == SWAPS + 1
    assert len(served) > SWAPS / 20, "too few versions served anything for the test to mean much"
    assert active.resident <= 4
    figures = generator.figures()
    assert figures["running"] == figures["waiting"] == 0


async def _references(generator: Generator, adapters: list[Path]) -> list[dict[str, str]]:
    """What each adapter says to each text when it is alone."""
    said = []
    for number, path in enumerate(adapters):
        generator.load_adapter(f"alone-{number}", path)
        said.append({text: await answer(generator, text, f"alone-{number}") for text in TEXTS})
        generator.unload_adapter(f"alone-{number}")
    assert all(said[0][text] != said[1][text] for text in TEXTS), "the adapters cannot be told apart"
    return said
