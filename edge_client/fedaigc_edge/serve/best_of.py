"""Choose the best of several candidates: by the private reward head of the policy that made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedaigc.arrays import FloatArray
from fedaigc.identifiers import PolicyVersion
from fedaigc_edge.serve.policies import PolicyInForce


@dataclass(frozen=True)
class Candidate:
    """What is known of one finished candidate.

    Args:
        features: its mean hidden state at the head's layer, (hidden,); None when the engine gave none.
        mean_logprob: nats per generated token, natural logarithm.
    """

    features: FloatArray | None = field(repr=False)
    mean_logprob: float


@dataclass(frozen=True)
class Ranking:
    """How the best of several was chosen. `scores` are the head's, or mean logprobs when no head ranks."""

    chosen: int
    scores: tuple[float, ...]
    head_policy: PolicyVersion | None
    """The policy version whose head ranked; None when none did."""


def rank(candidates: Sequence[Candidate], policy: PolicyInForce) -> Ranking:
    """The ranking of at least one candidate; of equal scores the first is chosen.

    The head scores a candidate's mean hidden state at `head.layer`, over the candidate's own tokens. It was
    trained (learn/torch_policy.py) on differences of exactly such means, chosen minus rejected, each over an
    answer's first 96 tokens with its end mark where that fits (learn/pair_rows.py), the differences scaled to
    unit length: so only the order of scores means something, not their size, and candidates far longer than
    96 tokens are outside of what it has seen.

    Policy 0 has no head and a zero head likes all answers equally; then no head ranks, and the candidate
    whose tokens were likeliest on average is chosen, which needs no training and favours no length.
    """
    head = policy.head
    features = [candidate.features for candidate in candidates]
    if head is not None and np.any(head.weights) and all(each is not None for each in features):
        scores = head.score(np.stack([each for each in features if each is not None]))
        version: PolicyVersion | None = policy.version
    else:
        scores = np.array([candidate.mean_logprob for candidate in candidates])
        version = None
    return Ranking(int(np.argmax(scores)), tuple(float(score) for score in scores), version)
