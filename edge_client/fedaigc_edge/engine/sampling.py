"""How the tokens of one answer are chosen, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

MAX_TOP_LOGPROBS = 20


@dataclass(frozen=True)
class Sampling:
    """Temperature 0 takes the likeliest token; top_k 0, top_p 1 and min_p 0 mean no limit.

    `presence_penalty` and `frequency_penalty` count generated tokens (OpenAI's definition);
    `repetition_penalty` counts prompt and generated tokens (CTRL, section 4.1), 1 means none. `logprobs` is
    how many alternatives are reported with each token: None reports nothing, 0 the chosen token alone.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    logprobs: int | None = None

    @property
    def repeatable(self) -> bool:
        """Whether the same request must give the same answer again."""
        return self.temperature == 0 or self.seed is not None


@dataclass(frozen=True)
class Grammar:
    """What an answer must look like: `text` is a JSON schema, a regex or a Lark grammar; `repr` hides it."""

    kind: Literal["json_schema", "regex", "lark"]
    text: str = field(repr=False)


@dataclass(frozen=True)
class TokenChoice:
    """A chosen token; with `logprobs`, natural logarithms of probabilities before temperature and filters."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    """The likeliest tokens with their logprobs, best first."""
