"""What an active adapter costs: the same answers with and without one, in turn, in one engine.

`python -m bench.adapter_cost MODELS MODEL FOLDER ROUNDS` prints the cost by number of answers at one time.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
from pathlib import Path

from bench.core_pinning import bench_core, on_cores
from bench.failure import BenchFailed
from bench.questions import question
from bench.random_adapter import write_random_adapter
from fedaigc_edge.engine.batching_generator import BatchingGenerator, EngineSettings
from fedaigc_edge.engine.generator import Generator, Job
from fedaigc_edge.engine.sampling import Sampling
from fedaigc_edge.model.store import open_model

SECONDS = 1800.0
AT_ONE_TIME = (1, 4)
TOKENS = 64
NAME = "bench"
SCALE = 1e-6
"""Too little to change a greedy answer, so that both sides of a pair compute the same tokens."""


def adapter_cost(models: Path, model: str, folder: Path, rounds: int) -> dict[int, float]:
    """The share of decode speed that an adapter takes, by answers at one time. Raises BenchFailed."""
    words = [sys.executable, "-m", "bench.adapter_cost", str(models), model, str(folder), str(rounds)]
    with on_cores({bench_core()}):
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise BenchFailed(f"bench.adapter_cost gave {done.returncode}:\n{done.stderr[-2000:]}")
    return {int(count): float(cost) for count, cost in json.loads(done.stdout).items()}


def measure(models: Path, name: str, folder: Path, rounds: int) -> dict[int, float]:
    """The same in this process."""
    model = open_model(models, name)
    engine = BatchingGenerator(model, EngineSettings(slots=max(AT_ONE_TIME), threads=1))
    try:
        engine.load_adapter(NAME, write_random_adapter(model, folder / "cost.onnx_adapter", 1, SCALE))
        return {count: asyncio.run(_cost(engine, model.eos_tokens, count, rounds)) for count in AT_ONE_TIME}
    finally:
        engine.close()


async def _cost(engine: Generator, ends: tuple[int, ...], count: int, rounds: int) -> float:
    costs = []
    for turn in range(rounds + 1):
        prompts = [question(1000 * count + 10 * turn + place) for place in range(count)]
        first = NAME if turn % 2 else None
        second = None if turn % 2 else NAME
        seconds = {name: await _decode_s(engine, ends, prompts, name) for name in (first, second)}
        costs.append(1 - seconds[None] / seconds[NAME])
    # The first round warms up.
    return statistics.median(costs[1:])


async def _decode_s(engine: Generator, ends: tuple[int, ...], prompts: list[str], name: str | None) -> float:
    sampling = Sampling(TOKENS, temperature=0.0, logit_bias=dict.fromkeys(ends, -100.0))
    encoded = (engine.encode_chat([{"role": "user", "content": text}]) for text in prompts)
    generations = engine.start([Job(tuple(prompt), sampling, name) for prompt in encoded])
    for generation in generations:
        async for _ in generation:
            pass
    return sum(generation.times.decode_ns for generation in generations) / 1e9


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))))
