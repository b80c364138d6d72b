"""The whole engine on a real, tiny model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from fedaigc.adapter import Adapter
from fedaigc.errors import Busy, ModelError, RequestInvalid, Unavailable
from fedaigc_edge.engine.batching_generator import BatchingGenerator, EngineSettings
from fedaigc_edge.engine.generator import Job
from fedaigc_edge.engine.sampling import Grammar, Sampling
from fedaigc_edge.model.store import ModelFolder
from fedaigc_edge.policy.adapter_export import export_adapter
from fedaigc_edge.serve.request import ContextTooLong

TEXTS = [
    "the quick brown fox",
    "a policy is",
    "jumps over",
    "the lazy dog and the head",
    "reward",
    "an adapter",
]


@pytest.fixture(scope="module")
def generator(tiny_model: ModelFolder) -> Iterator[BatchingGenerator]:
    made = BatchingGenerator(tiny_model, EngineSettings(slots=4, waiting=8, threads=1))
    yield made
    made.close()


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def go() -> Any:
        async with asyncio.timeout(60):
            return await work()

    return asyncio.run(go())


async def collect(generator: BatchingGenerator, job: Job) -> tuple[str, int, str]:
    (generation,) = generator.start([job])
    text, tokens, finish = "", 0, ""
    async for piece in generation:
        text, tokens, finish = text + piece.text, tokens + piece.tokens, piece.finish or ""
    return text, tokens, finish


def job(generator: BatchingGenerator, text: str, tokens: int = 24, **more: Any) -> Job:
    sampling = Sampling(tokens, **{"temperature": 0, **more.pop("sampling", {})})
    return Job(tuple(generator.encode(text)), sampling, **more)


def probe(model: ModelFolder, path: Path, seed: int) -> Path:
    random = np.random.default_rng(seed)
    b = {
        slot.name: random.standard_normal((slot.out_features, model.shape.rank)).astype(np.float32)
        for slot in model.shape.slots
    }
    export_adapter(Adapter(model.shape, model.base_model, b), model, path)
    return path


def test_greedy_is_what_torch_generates(generator: BatchingGenerator, tiny_model: ModelFolder) -> None:
    network = AutoModelForCausalLM.from_pretrained(tiny_model.hf, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model.hf)
    for text in TEXTS[:3]:
        prompt = torch.tensor([generator.encode(text)])
        made = network.generate(prompt, max_new_tokens=24, do_sample=False)[0, prompt.shape[1] :]
        expected = tokenizer.decode(made, skip_special_tokens=True)
        assert run(partial(collect, generator, job(generator, text)))[0] == expected


def test_many_together_say_what_each_says_alone(generator: BatchingGenerator) -> None:
    async def both() -> tuple[list[Any], list[Any]]:
        alone = [await collect(generator, job(generator, text, 40)) for text in TEXTS]
        jobs = [collect(generator, job(generator, text, 40)) for text in TEXTS]
        return alone, list(await asyncio.gather(*jobs))

    alone, together = run(both)
    assert together == alone


def test_adapters_mixed_in_one_batch_say_what_each_says_alone(
    generator: BatchingGenerator, tiny_model: ModelFolder, tmp_path: Path
) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        generator.load_adapter(name, probe(tiny_model, tmp_path / f"{name}.onnx_adapter", seed))

    async def both() -> tuple[list[Any], list[Any]]:
        asked = [job(generator, TEXTS[0], 30, adapter=name) for name in (None, "one", "two")]
        alone = [await collect(generator, item) for item in asked]
        return alone, list(await asyncio.gather(*(collect(generator, item) for item in asked)))

    alone, together = run(both)
    assert together == alone
    assert len({text for text, _, _ in alone}) == 3
    for name in ("one", "two"):
        generator.unload_adapter(name)


def test_another_adapter_under_the_same_name_reuses_nothing_of_the_first(
    generator: BatchingGenerator, tiny_model: ModelFolder, tmp_path: Path
) -> None:
    said = {}
    for seed, name in ((1, "same"), (2, "same"), (2, "other")):
        generator.load_adapter(name, probe(tiny_model, tmp_path / f"{name}{seed}.onnx_adapter", seed))
        said[seed, name] = run(partial(collect, generator, job(generator, TEXTS[3], 30, adapter=name)))
        generator.unload_adapter(name)
    assert said[1, "same"] != said[2, "same"] == said[2, "other"]


def test_an_adapter_in_use_is_not_unloaded(
    generator: BatchingGenerator, tiny_model: ModelFolder, tmp_path: Path
) -> None:
    generator.load_adapter("used", probe(tiny_model, tmp_path / "used.onnx_adapter", 3))

    async def go() -> None:
        (generation,) = generator.start([job(generator, TEXTS[0], 200, adapter="used")])
        with pytest.raises(Busy):
            generator.unload_adapter("used")
        generation.cancel()
        async for _ in generation:
            pass

    run(go)
    generator.unload_adapter("used")
    with pytest.raises(ModelError):
        run(lambda: collect(generator, job(generator, TEXTS[0], adapter="used")))


def test_a_seed_repeats_and_two_seeds_differ(generator: BatchingGenerator) -> None:
    async def three() -> list[str]:
        seeds = ({"temperature": 1.0, "seed": seed} for seed in (5, 5, 6))
        return [(await collect(generator, job(generator, TEXTS[0], sampling=seed)))[0] for seed in seeds]

    first, again, other = run(three)
    assert first == again != other


def test_logprobs_come_with_each_token(generator: BatchingGenerator) -> None:
    async def go() -> list[Any]:
        (generation,) = generator.start([job(generator, TEXTS[0], 5, sampling={"logprobs": 3})])
        return [choice async for piece in generation for choice in piece.choices]

    choices = run(go)
    assert len(choices) == 5
    for choice in choices:
        assert choice.top[0] == (choice.token, choice.logprob)
        assert len(choice.top) == 3


def test_a_grammar_is_kept_to(generator: BatchingGenerator) -> None:
    grammar = Grammar("regex", "(a|b)(c|d)")
    text, _, finish = run(lambda: collect(generator, job(generator, TEXTS[0], 50, grammar=grammar)))
    assert text in {"ac", "ad", "bc", "bd"}
    assert finish == "stop"


def test_embeddings_are_unit_vectors_that_know_their_text(
    generator: BatchingGenerator, tiny_model: ModelFolder
) -> None:
    prompts = [generator.encode(text) for text in (TEXTS[0], TEXTS[0], TEXTS[1])]
    vectors = run(lambda: generator.embed(prompts))
    assert vectors.shape == (3, tiny_model.architecture.hidden)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.allclose(vectors[0], vectors[2])


def test_features_are_torch_s_mean_hidden_state_of_the_answer(
    generator: BatchingGenerator, tiny_model: ModelFolder
) -> None:
    asked = job(generator, TEXTS[0], 12, features=True, sampling={"logprobs": 0})

    async def go() -> tuple[list[int], Any]:
        (generation,) = generator.start([asked])
        tokens = [choice.token async for piece in generation for choice in piece.choices]
        return tokens, generation.features

    tokens, features = run(go)
    network = AutoModelForCausalLM.from_pretrained(tiny_model.hf, dtype=torch.float32)
    with torch.no_grad():
        states = network(torch.tensor([[*asked.prompt, *tokens]]), output_hidden_states=True).hidden_states
    expected = states[tiny_model.head_layer][0, len(asked.prompt) :].mean(0).numpy()
    assert np.allclose(features, expected, atol=1e-3)


def test_what_does_not_fit_is_refused_before_it_waits(generator: BatchingGenerator) -> None:
    with pytest.raises(ContextTooLong):
        run(lambda: collect(generator, job(generator, TEXTS[0], 10_000)))
    with pytest.raises(RequestInvalid):
        run(lambda: collect(generator, Job((), Sampling(5))))


def test_a_full_line_says_busy_and_takes_nothing(generator: BatchingGenerator) -> None:
    async def go() -> None:
        first = generator.start([job(generator, TEXTS[0], 200) for _ in range(10)])
        with pytest.raises(Busy):
            generator.start([job(generator, TEXTS[1], 5) for _ in range(3)])
        for generation in first:
            generation.cancel()
        for generation in first:
            async for _ in generation:
                pass

    run(go)
    figures = generator.figures()
    assert figures["running"] == figures["waiting"] == 0


def test_closing_cancels_what_runs_and_takes_no_more(tiny_model: ModelFolder) -> None:
    async def go() -> tuple[str, BatchingGenerator]:
        made = BatchingGenerator(tiny_model, EngineSettings(slots=1, threads=1))
        (generation,) = made.start([job(made, TEXTS[0], 200)])
        await asyncio.to_thread(made.close)
        finish = [piece.finish async for piece in generation][-1]
        with pytest.raises(Unavailable):
            made.start([job(made, TEXTS[0])])
        return finish or "", made

    assert run(go)[0] == "cancelled"
