"""What a caller may ask, and the step that every request starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from fedaigc.errors import RequestInvalid, Unavailable
from fedaigc.identifiers import RequestId
from fedaigc_edge.engine.sampling import Grammar, Sampling

Language = Literal["en", "zh"]
TokenReader = Callable[[int], bytes]
"""The UTF-8 bytes that a token stands for."""

MAX_STOPS = 4
"""Stop sequences a request may name."""
MAX_CHOICES = 16
"""Answers that one request may have generated, over all its prompts."""
NO_LIMIT = Sampling(max_tokens=0)
"""How a request that names nothing is sampled; `max_tokens` is decided when budget is reserved."""


class UnknownModel(RequestInvalid):
    """The request names a model, or a policy version, that this device does not serve now."""

    code = "model_not_found"


class ContextTooLong(RequestInvalid):
    """Prompt and answer together do not fit the model's context."""

    code = "context_length_exceeded"


class BodyTooLarge(RequestInvalid):
    """The body is larger than the limit; it was not parsed."""

    code = "request_too_large"


class CallerGone(Unavailable):
    """The caller left before anything was delivered, so there is nothing to record."""

    code = "caller_gone"


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool: `arguments` is the JSON text that the model wrote; `repr` hides it."""

    id: str
    name: str = field(repr=False)
    arguments: str = field(repr=False)


@dataclass(frozen=True)
class ChatMessage:
    """One message of a conversation; `repr` shows the role only."""

    role: str
    """system, user, assistant or tool."""
    content: str = field(repr=False)
    tool_calls: tuple[ToolCall, ...] = field(default=(), repr=False)
    tool_call_id: str | None = field(default=None, repr=False)

    def texts(self) -> Iterator[str]:
        """Everything in it that a model would read."""
        yield self.content
        for call in self.tool_calls:
            yield call.name
            yield call.arguments


@dataclass(frozen=True)
class ToolUse:
    """The tools that a request offers.

    Args:
        tools: OpenAI's function objects: `name`, and `description` and `parameters` (a JSON schema) if given.
        callable: names of those that may be called; a request that names one shows the model all.
        must_call: whether the answer has to be a call.
    """

    tools: tuple[Mapping[str, Any], ...] = field(repr=False)
    callable: tuple[str, ...] = field(repr=False)
    must_call: bool


class Judged(Protocol):
    """A request that the gate can judge."""

    @property
    def id(self) -> RequestId:
        """Its name."""
        ...

    @property
    def language(self) -> Language:
        """The one its caller reads messages in."""
        ...

    def texts(self, token_bytes: TokenReader | None) -> list[str]:
        """Every text in it that could reach the model or shape an answer."""
        ...


@dataclass(frozen=True)
class GenerationRequest:
    """One generation, checked for form; whether it may run is decided by the steps after it.

    Exactly one of `messages` (a conversation) and `prompts` (texts or token ids) has items. `max_tokens` None
    takes the device's default. `n` answers are made of each prompt; with `best_of` above 1 that many
    candidates are, and the best is the answer. `repr` shows no text.
    """

    id: RequestId
    model: str
    messages: tuple[ChatMessage, ...] = ()
    prompts: tuple[str | tuple[int, ...], ...] = field(default=(), repr=False)
    max_tokens: int | None = None
    sampling: Sampling = NO_LIMIT
    stop: tuple[str, ...] = field(default=(), repr=False)
    n: int = 1
    best_of: int = 1
    tools: ToolUse | None = None
    grammar: Grammar | None = None
    language: Language = "en"
    shaping: tuple[str, ...] = field(default=(), repr=False)
    """Texts of a response format or of tools: what a schema demands, the model is made to say."""

    @property
    def choices(self) -> int:
        """How many answers, or candidates, are generated of each prompt."""
        return max(self.n, self.best_of)

    def texts(self, token_bytes: TokenReader | None) -> list[str]:
        """See Judged."""
        texts = [text for message in self.messages for text in message.texts()]
        texts += [readable_prompt(prompt, token_bytes) for prompt in self.prompts]
        return texts + list(self.shaping)


@dataclass(frozen=True)
class EmbeddingRequest:
    """Vectors of texts, or of token ids."""

    id: RequestId
    model: str
    inputs: tuple[str | tuple[int, ...], ...] = field(repr=False)
    language: Language = "en"

    def texts(self, token_bytes: TokenReader | None) -> list[str]:
        """See Judged."""
        return [readable_prompt(item, token_bytes) for item in self.inputs]


def readable_prompt(prompt: str | Sequence[int], token_bytes: TokenReader | None) -> str:
    """The prompt as text; raises RequestInvalid for token ids that nobody here can read."""
    if isinstance(prompt, str):
        return prompt
    if token_bytes is None:
        raise RequestInvalid("Token ids cannot be judged here", "", "send text", field="prompt")
    return b"".join(map(token_bytes, prompt)).decode("utf-8", "replace")
