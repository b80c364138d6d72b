from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.engine.constraint import Constraint
from fedaigc_edge.engine.sampling import Sampling, TokenChoice
from fedaigc_edge.engine.token_sampler import TokenSampler

V = 5_003
INF = float("inf")
PLAIN = Sampling(64, seed=1)
GREEDY = Sampling(64, temperature=0.0)
PROMPT = (3, 5, 5, 4_000, 17)
Doubles = npt.NDArray[np.float64]


class OnlyEven(Constraint):
    """A grammar of even tokens that counts what it accepted."""

    def __init__(self) -> None:
        self.accepted: list[int] = []

    def mask(self, logits: FloatArray) -> None:
        logits[1::2] = -np.inf

    def accept(self, token: int) -> None:
        self.accepted.append(token)


def rows(count: int, seed: int = 7, scale: float = 3.0) -> FloatArray:
    return (scale * np.random.default_rng(seed).standard_normal((count, V))).astype(np.float32)


def chosen(sampling: Sampling, logits: FloatArray, prompt: Sequence[int] = ()) -> list[TokenChoice]:
    sampler = TokenSampler(sampling, prompt, V)
    return [sampler.choose(row.copy()) for row in logits]


def tokens(sampling: Sampling, logits: FloatArray, prompt: Sequence[int] = ()) -> list[int]:
    return [choice.token for choice in chosen(sampling, logits, prompt)]


def reference(sampling: Sampling, row: FloatArray, prompt: Sequence[int], made: Sequence[int]) -> Doubles:
    """The probabilities of the next token, straight from the definitions in float64, everything sorted."""
    logits = row.astype(np.float64)
    for token, bias in sampling.logit_bias.items():
        logits[token] += bias
    for token in {*prompt, *made} if sampling.repetition_penalty != 1 else ():
        factor = sampling.repetition_penalty
        logits[token] = logits[token] / factor if logits[token] > 0 else logits[token] * factor
    for token, count in Counter(made).items():
        logits[token] -= sampling.presence_penalty + sampling.frequency_penalty * count
    logits = (logits - logits.max()) / sampling.temperature
    if sampling.top_k:
        logits[logits < np.sort(logits)[::-1][min(sampling.top_k, row.size) - 1]] = -INF
    weights = np.exp(logits)
    order = np.lexsort((np.arange(row.size), -weights))
    before = np.cumsum(weights[order]) - weights[order]
    weights[order[before >= sampling.top_p * weights.sum()]] = 0
    weights[weights < sampling.min_p * weights.max()] = 0
    return np.asarray(weights / weights.sum())


EVERYTHING = Sampling(
    64,
    temperature=0.8,
    top_p=0.95,
    top_k=200,
    min_p=0.01,
    presence_penalty=0.4,
    frequency_penalty=0.3,
    repetition_penalty=1.2,
    logit_bias={9: 8.0, 10: -100.0, 4_999: 6.5},
    seed=5,
)
SETTINGS = {
    "plain": PLAIN,
    "cold": replace(PLAIN, temperature=0.3),
    "hot": replace(PLAIN, temperature=2.0),
    "top_k": replace(PLAIN, top_k=40),
    "top_p": replace(PLAIN, top_p=0.9),
    "min_p": replace(PLAIN, min_p=0.05),
    "all limits": replace(PLAIN, top_p=0.9, top_k=100, min_p=0.02, temperature=1.3),
    "presence": replace(PLAIN, presence_penalty=1.5, top_k=5),
    "frequency": replace(PLAIN, frequency_penalty=-0.7, top_k=5),
    "repetition": replace(PLAIN, repetition_penalty=1.7),
    "bias": replace(PLAIN, logit_bias={1: 9.0, 2: 9.5, 3: -100.0}),
    "everything": EVERYTHING,
    "everything with logprobs": replace(EVERYTHING, logprobs=3),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_each_token_is_where_the_seed_s_uniform_number_falls_by_the_definitions(name: str) -> None:
    sampling = SETTINGS[name]
    uniforms = np.random.Generator(np.random.PCG64(sampling.seed)).random(60)
    sampler = TokenSampler(sampling, PROMPT, V)
    made: list[int] = []
    # The same few rows again and again, so that penalties have something to count.
    for step, row in enumerate(np.tile(rows(3), (20, 1))):
        ends = np.cumsum(reference(sampling, row, PROMPT, made))
        token = sampler.choose(row.copy()).token
        low = ends[token - 1] if token else 0.0
        assert low - 1e-5 <= uniforms[step] <= ends[token] + 1e-5
        assert ends[token] > low
        made.append(token)


@pytest.mark.parametrize("name", ["plain", "top_p", "everything"])
def test_frequencies_are_the_probabilities_chi_square(name: str) -> None:
    from scipy import stats

    sampling = replace(SETTINGS[name], presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0)
    sampling = replace(sampling, logit_bias={9: 3.0, 10: -100.0})
    row = rows(1)[0][:1_500]
    sampler = TokenSampler(sampling, (), row.size)
    seen = np.bincount([sampler.choose(row.copy()).token for _ in range(20_000)], minlength=row.size)
    expected = 20_000 * reference(sampling, row, (), ())
    assert seen[expected == 0].sum() == 0
    often = expected >= 5
    groups = [(seen[often], expected[often]), ([seen[~often].sum()], [expected[~often].sum()])]
    observed, wanted = (np.concatenate(part) for part in zip(*groups, strict=True))
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-4


def hugging(processors: Sequence[Any], row: FloatArray, ids: Sequence[int] = (0,)) -> FloatArray:
    import torch

    scores = torch.from_numpy(row.copy())[None]
    for processor in processors:
        scores = processor(torch.tensor([list(ids)]), scores)
    return np.asarray(scores[0].numpy())


@pytest.mark.parametrize("limits", [(1.0, 0, 1.0, 0.2), (0.7, 50, 0.9, 0.0), (1.4, 300, 0.8, 0.03)])
def test_the_possible_tokens_are_those_of_transformers(limits: tuple[float, int, float, float]) -> None:
    hf = pytest.importorskip("transformers.generation.logits_process")
    temperature, top_k, top_p, min_p = limits
    chain = [hf.TemperatureLogitsWarper(temperature)] if temperature != 1 else []
    chain += [hf.TopKLogitsWarper(top_k)] if top_k else []
    chain += [hf.TopPLogitsWarper(top_p)] if top_p < 1 else []
    chain += [hf.MinPLogitsWarper(min_p)] if min_p else []
    sampling = Sampling(64, temperature, top_p, top_k, min_p, seed=3)
    for row in rows(4, scale=2.0):
        possible = set(np.flatnonzero(hugging(chain, row) > -INF).tolist())
        ours = reference(sampling, row, (), ())
        assert set(np.flatnonzero(ours).tolist()) == possible
        sampler = TokenSampler(sampling, (), V)
        assert {sampler.choose(row.copy()).token for _ in range(500)} <= possible


def test_the_repetition_penalty_is_that_of_transformers() -> None:
    hf = pytest.importorskip("transformers.generation.logits_process")
    for row in rows(10):
        prompt = [int(token) for token in np.argsort(-row)[:4]]
        expected = hugging([hf.RepetitionPenaltyLogitsProcessor(5.0)], row, prompt)
        assert tokens(replace(GREEDY, repetition_penalty=5.0), row[None], prompt) == [int(expected.argmax())]


@pytest.mark.parametrize("sampling", [PLAIN, EVERYTHING, replace(EVERYTHING, temperature=0.0)])
def test_logprobs_are_the_model_s_own_whatever_is_done_to_the_logits(sampling: Sampling) -> None:
    from scipy.special import log_softmax

    logits = rows(30)
    told = chosen(replace(sampling, logprobs=5), logits, PROMPT)
    assert [choice.token for choice in told] == tokens(sampling, logits, PROMPT)
    for row, choice in zip(logits, told, strict=True):
        expected = log_softmax(row.astype(np.float64))
        best = np.lexsort((np.arange(V), -row))[:5]
        assert [token for token, _ in choice.top] == best.tolist()
        assert [value for _, value in choice.top] == pytest.approx(expected[best], abs=1e-5)
        assert choice.logprob == pytest.approx(expected[choice.token], abs=1e-5)
        assert choice.logprob is not None
        assert choice.logprob <= 0


def test_no_alternatives_are_told_unless_asked_for() -> None:
    (none,), (own,) = (chosen(replace(PLAIN, logprobs=asked), rows(1)) for asked in (None, 0))
    assert none.logprob is None
    assert own.logprob is not None
    assert none.top == own.top == ()


def test_tokens_that_the_model_bars_are_no_alternatives() -> None:
    row = np.full((1, V), -np.inf, np.float32)
    row[0, [5, 8]] = 1.0
    (choice,) = chosen(replace(GREEDY, logprobs=5), row)
    assert [token for token, _ in choice.top] == [5, 8]
    assert [value for _, value in choice.top] == pytest.approx([-np.log(2)] * 2)


def test_equal_seeds_give_equal_answers_and_other_seeds_others() -> None:
    logits = rows(40)
    for seed in (0, 7, -3, 2**63 - 1, -(2**63), 2**70):
        sampling = replace(PLAIN, seed=seed)
        assert tokens(sampling, logits) == tokens(sampling, logits)
        assert tokens(sampling, logits) != tokens(replace(PLAIN, seed=seed + 1), logits)
    assert tokens(replace(PLAIN, seed=None), logits) != tokens(replace(PLAIN, seed=None), logits)


def test_a_step_uses_one_number_of_the_stream_whatever_the_logits_are() -> None:
    logits = rows(10)
    other = logits.copy()
    other[:9] = rows(9, seed=8, scale=0.01)
    other[3] = 0
    for sampling in (PLAIN, replace(PLAIN, top_p=0.5, top_k=9)):
        assert tokens(sampling, logits)[9] == tokens(sampling, other)[9]


def test_without_temperature_the_likeliest_is_taken_the_lower_of_equals() -> None:
    logits = np.round(rows(20))
    for temperature in (0.0, 1e-60):
        assert tokens(replace(GREEDY, temperature=temperature), logits) == logits.argmax(axis=1).tolist()


def test_a_tiny_temperature_takes_the_likeliest_too() -> None:
    logits = rows(20)
    for temperature in (1e-4, 1e-30, 1e-44):
        assert tokens(replace(PLAIN, temperature=temperature), logits) == logits.argmax(axis=1).tolist()


@pytest.mark.parametrize(
    "changed",
    [
        {"temperature": 0.5},
        {"logprobs": 0},
        {"presence_penalty": 0.1},
        {"frequency_penalty": -0.1},
        {"repetition_penalty": 1.1},
        {"logit_bias": {1: 1.0}},
    ],
    ids=str,
)
def test_only_a_plain_argmax_is_greedy(changed: dict[str, Any]) -> None:
    assert TokenSampler(replace(GREEDY, top_k=5, top_p=0.5, min_p=0.1), (), V).greedy
    assert not TokenSampler(replace(GREEDY, **changed), (), V).greedy
    assert not TokenSampler(GREEDY, (), V, OnlyEven()).greedy


def test_a_grammar_bars_tokens_and_learns_each_choice() -> None:
    for sampling in (PLAIN, GREEDY, replace(EVERYTHING, logprobs=2)):
        grammar = OnlyEven()
        sampler = TokenSampler(sampling, PROMPT, V, grammar)
        made = [sampler.choose(row).token for row in rows(20)]
        assert grammar.accepted == made
        assert all(token % 2 == 0 for token in made)
        sampler.note(6)
        assert grammar.accepted[-1] == 6


def test_noted_tokens_count_for_penalties_as_chosen_ones_do() -> None:
    sampling = replace(EVERYTHING, top_k=3)
    logits = np.tile(rows(1), (50, 1))
    made = tokens(sampling, logits, PROMPT)
    late = TokenSampler(sampling, PROMPT, V)
    for token in made[:-1]:
        late.note(token)
    probabilities = reference(sampling, logits[0], PROMPT, made[:-1])
    assert probabilities[late.choose(logits[0].copy()).token] > 0


def test_ids_outside_the_vocabulary_change_nothing() -> None:
    odd = replace(EVERYTHING, logit_bias={**EVERYTHING.logit_bias, V: 5.0, -1: 5.0})
    logits = rows(20)
    assert tokens(odd, logits, (*PROMPT, V, -1, 10**9)) == tokens(EVERYTHING, logits, PROMPT)
    sampler = TokenSampler(odd, PROMPT, V)
    sampler.note(V)
    sampler.note(-1)
    assert sampler.choose(logits[0].copy()).token == tokens(EVERYTHING, logits, PROMPT)[0]


@pytest.mark.parametrize("sampling", SETTINGS.values(), ids=SETTINGS.keys())
def test_a_row_without_a_likeliest_token_is_a_model_error(sampling: Sampling) -> None:
    for bad in (-np.inf, np.nan, np.inf):
        row = np.full(V, -np.inf, np.float32)
        row[[3, 7]] = bad
        for one in (sampling, replace(sampling, temperature=0.0), replace(sampling, logprobs=2)):
            with pytest.raises(ModelError):
                TokenSampler(one, PROMPT, V).choose(row.copy())


@pytest.mark.parametrize("sampling", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.filterwarnings("error")
def test_extreme_rows_give_a_token_and_no_warning(sampling: Sampling) -> None:
    huge = rows(1)[0] * np.float32(2e37)
    single = np.full(V, -np.inf, np.float32)
    single[4_321] = -3e38
    for row in (huge, single, np.zeros(V, np.float32), np.full(V, -3e38, np.float32)):
        (choice,) = chosen(replace(sampling, logprobs=2), row[None], PROMPT)
        assert np.isfinite(row[choice.token])
        assert choice.logprob is not None
        assert not np.isnan(choice.logprob)
    assert tokens(sampling, single[None], PROMPT) == [4_321]
