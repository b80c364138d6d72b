"""What a caller may ask, and the step that every request starts from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fedaigc.errors import RequestInvalid
from fedaigc.identifiers import RequestId

ChatRole = Literal["system", "user", "assistant"]
Language = Literal["en", "zh"]

MAX_STOPS = 4
"""Stop sequences a request may name."""


class UnknownModel(RequestInvalid):
    """The request names a model, or a policy version, that this device does not serve now."""

    code = "model_not_found"


class ContextTooLong(RequestInvalid):
    """Prompt and answer together do not fit the model's context."""

    code = "context_length_exceeded"


class BodyTooLarge(RequestInvalid):
    """The body is larger than the limit; it was not parsed."""

    code = "request_too_large"


@dataclass(frozen=True)
class ChatMessage:
    """One message of a conversation; `repr` shows the role only."""

    role: str
    content: str = field(repr=False)


@dataclass(frozen=True)
class GenerationRequest:
    """One generation, checked for form; whether it may run is decided by the steps after it.

    Temperature 0 takes the likeliest token; `top_k` 0 means no limit; `max_tokens` None takes the device's
    default; `language` is the one the caller reads messages in. `repr` shows no text.
    """

    id: RequestId
    model: str
    messages: tuple[ChatMessage, ...]
    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = field(default=(), repr=False)
    language: Language = "en"
