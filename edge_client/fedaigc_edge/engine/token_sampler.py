"""Choose one answer's tokens, one row of logits at a time.

The order is: logit_bias, penalties (repetition, then presence and frequency), grammar, temperature, top_k,
top_p, min_p; the last four in the order of Hugging Face transformers, each on what the one before left. One
uniform number is drawn per token and falls on the kept tokens in the order of their ids, so a token is a
function of seed, step and logits. Reported logprobs are the model's own, before all of this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedaigc.arrays import FloatArray
from fedaigc.errors import ModelError
from fedaigc_edge.engine.constraint import Constraint
from fedaigc_edge.engine.sampling import Sampling, TokenChoice
from fedaigc_edge.engine.token_counts import TokenCounts
from fedaigc_edge.engine.token_filters import best_first, draw, largest, nucleus

_SEED_BITS = (1 << 64) - 1


class TokenSampler:
    """The chooser of one answer; not thread-safe.

    Args:
        prompt: counts for the repetition penalty.
        vocabulary: of the logits; ids outside it in `prompt` or `logit_bias` are ignored.
        constraint: what the grammar allows next; the sampler advances it.
    """

    def __init__(
        self,
        sampling: Sampling,
        prompt: Sequence[int],
        vocabulary: int,
        constraint: Constraint | None = None,
    ) -> None:
        self._sampling = sampling
        self._constraint = constraint
        self._temperature = np.float32(sampling.temperature)
        bias = {token: value for token, value in sampling.logit_bias.items() if 0 <= token < vocabulary}
        self._bias_ids = np.fromiter(bias, np.int64, len(bias))
        self._bias = np.fromiter(bias.values(), np.float32, len(bias))
        self._repetition = np.float32(sampling.repetition_penalty)
        self._repeated = TokenCounts(prompt, vocabulary) if sampling.repetition_penalty != 1 else None
        counted = sampling.presence_penalty != 0 or sampling.frequency_penalty != 0
        self._generated = TokenCounts((), vocabulary) if counted else None
        seed = None if sampling.seed is None else sampling.seed & _SEED_BITS
        self._random = np.random.Generator(np.random.PCG64(seed)) if self._temperature > 0 else None
        self._changed = bool(bias) or counted or self._repeated is not None or constraint is not None
        self._greedy = self._random is None and not self._changed and sampling.logprobs is None

    @property
    def greedy(self) -> bool:
        """Whether a token is the plain argmax of its logits, so that a batch can be chosen at once."""
        return self._greedy

    def note(self, token: int) -> None:
        """Advance by a token that was chosen elsewhere."""
        if self._repeated is not None:
            self._repeated.add(token)
        if self._generated is not None:
            self._generated.add(token)
        if self._constraint is not None:
            self._constraint.accept(token)

    def choose(self, logits: FloatArray) -> TokenChoice:
        """The next token of (vocabulary,) float32 logits, which may be changed; advances by it.

        Raises ModelError when no token can be chosen: all are -inf, or one is NaN or +inf.
        """
        report = self._sampling.logprobs
        if report is None:
            return TokenChoice(self._next(logits))
        weights, log_sum = _weights(logits)
        best = best_first(logits, report).tolist() if report else []
        # At temperature 1 these are the probabilities to draw with, too.
        shared = self._temperature == 1 and not self._changed
        own = logits if shared else logits.copy()
        token = self._next(logits, weights if shared else None)
        top = tuple((one, float(own[one]) - log_sum) for one in best)
        return TokenChoice(token, float(own[token]) - log_sum, top)

    def _next(self, logits: FloatArray, weights: FloatArray | None = None) -> int:
        if self._changed:
            with np.errstate(all="ignore"):
                self._change(logits)
        likeliest = int(logits.argmax())
        top = _finite(logits[likeliest])
        token = likeliest if self._random is None else self._drawn(logits, top, weights)
        self.note(token)
        return token

    def _change(self, logits: FloatArray) -> None:
        logits[self._bias_ids] += self._bias
        if self._repeated is not None:
            ids = self._repeated.ids
            values = logits[ids]
            logits[ids] = np.where(values > 0, values / self._repetition, values * self._repetition)
        if self._generated is not None:
            sampling = self._sampling
            penalty = sampling.presence_penalty + sampling.frequency_penalty * self._generated.counts
            logits[self._generated.ids] -= penalty.astype(np.float32)
        if self._constraint is not None:
            self._constraint.mask(logits)

    def _drawn(self, logits: FloatArray, top: np.float32, weights: FloatArray | None) -> int:
        uniform = self._random.random() if self._random is not None else 0.0
        sampling = self._sampling
        ids = largest(logits, sampling.top_k) if 0 < sampling.top_k < logits.size else None
        if weights is None:
            weights = _scaled(logits if ids is None else logits[ids], top, self._temperature)
        elif ids is not None:
            weights = weights[ids]
        if sampling.top_p < 1:
            ids, weights = _only(ids, weights, nucleus(weights, sampling.top_p))
        if sampling.min_p > 0:
            ids, weights = _only(ids, weights, np.flatnonzero(weights >= np.float32(sampling.min_p)))
        position = draw(weights, uniform)
        return position if ids is None else int(ids[position])


def _only(
    ids: npt.NDArray[np.int64] | None, weights: FloatArray, kept: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    return (kept if ids is None else ids[kept]), weights[kept]


def _scaled(logits: FloatArray, top: np.float32, temperature: np.float32) -> FloatArray:
    """exp((logits - top) / temperature), in place: another array of this size would cost as much again."""
    with np.errstate(all="ignore"):
        np.subtract(logits, top, out=logits)
        if temperature != 1:
            np.divide(logits, temperature, out=logits)
    return np.exp(logits, out=logits)


def _weights(logits: FloatArray) -> tuple[FloatArray, float]:
    """exp(logits - the largest), and the logarithm of the sum of exp(logits)."""
    top = _finite(logits.max())
    weights = _scaled(logits.copy(), top, np.float32(1))
    return weights, float(top) + math.log(float(weights.sum()))


def _finite(top: np.float32) -> np.float32:
    if not math.isfinite(top):
        raise ModelError(
            "The model gave no token to choose",
            "its likeliest logit is not a finite number",
            "export the model again; with a grammar, ask without it",
        )
    return top
