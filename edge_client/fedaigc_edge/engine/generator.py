"""What serving asks of an engine: prompts in, pieces of whole text out, many answers at one time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fedaigc.arrays import FloatArray
from fedaigc_edge.engine.sampling import Grammar, Sampling, TokenChoice


@dataclass(frozen=True)
class Piece:
    """What one or more tokens added; `text` may be "" while a character is unfinished, and `repr` hides it.

    The last piece of an answer has `finish`: "stop" (the model ended), "length" or "cancelled".
    """

    text: str = field(repr=False)
    tokens: int
    finish: str | None = None
    choices: tuple[TokenChoice, ...] = ()
    """One for each token when logprobs were asked for, else empty."""


@dataclass(frozen=True)
class Job:
    """One answer to generate. `features` asks for what the reward head reads of it."""

    prompt: tuple[int, ...] = field(repr=False)
    sampling: Sampling
    adapter: str | None = None
    grammar: Grammar | None = None
    features: bool = False


@dataclass(frozen=True)
class EngineTimes:
    """Where an answer's time went, nanoseconds that follow one another: waiting, prompt, answer."""

    queue_ns: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0


class Generation(Protocol):
    """One answer that is being generated; used from the event loop that started it."""

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens whose keys and values were there already; known from the first piece on."""
        ...

    @property
    def times(self) -> EngineTimes:
        """Complete after the last piece."""
        ...

    @property
    def features(self) -> FloatArray | None:
        """Mean hidden state of the answer's tokens at the head's layer, (hidden,); after the last piece."""
        ...

    def __aiter__(self) -> AsyncIterator[Piece]:
        """The pieces as they come; raises ModelError when the runtime fails."""
        ...

    def cancel(self) -> None:
        """End it within one token; the last piece then says "cancelled". Harmless when it has ended."""
        ...


class AdapterHost(Protocol):
    """What keeps adapters loaded by name; called from any thread."""

    def load_adapter(self, name: str, path: Path) -> None:
        """Load an `.onnx_adapter` file under a new name. Raises ModelError."""
        ...

    def unload_adapter(self, name: str) -> None:
        """Forget an adapter. Raises Busy while an answer uses it."""
        ...


class TextEncoder(Protocol):
    """Text to tokens and back; called from any thread."""

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """The prompt's tokens, chat template applied; special tokens in a message's text are plain text.

        Messages are in the chat template's form: `role`, `content` and, of an assistant, `tool_calls`.
        Raises RequestInvalid with field "messages".
        """
        ...

    def encode(self, text: str) -> list[int]:
        """The tokens of plain text, nothing added. Raises RequestInvalid for text that no model can read."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The UTF-8 bytes that a token stands for; b"" for a special token."""
        ...

    @property
    def takes_tools(self) -> bool:
        """Whether the model's chat template shows tools to the model."""
        ...


class Generator(AdapterHost, TextEncoder, Protocol):
    """A loaded model."""

    base_model: str
    context_length: int
    """Tokens of prompt and answer together."""
    vocabulary: int

    def prepare_grammar(self, grammar: Grammar) -> None:
        """Compile it, so that `start` need not: that takes a second for a large schema, in any thread.

        Raises RequestInvalid for a grammar that cannot be used.
        """
        ...

    def start(self, jobs: Sequence[Job]) -> Sequence[Generation]:
        """Put jobs in line together (the choices of one request), all or none. Never blocks.

        Raises Busy with `retry_after_s` when the line is full, ContextTooLong, ModelError for an adapter that
        is not loaded, RequestInvalid for a grammar that cannot be used.
        """
        ...

    async def embed(self, prompts: Sequence[Sequence[int]]) -> FloatArray:
        """Mean last hidden state of each prompt, unit length, (prompts, hidden)."""
        ...

    def figures(self) -> Mapping[str, float]:
        """Gauges for /metrics: slots, queue, key-value bytes and fragmentation."""
        ...

    def close(self) -> None:
        """Take no more work, cancel what runs, free the memory; returns when its thread has ended."""
        ...
