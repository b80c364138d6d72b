"""A request's prompts as the model's tokens: a conversation under the chat template, or prompts as given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fedaigc.errors import RequestInvalid
from fedaigc_edge.serve.chat_prompt import template_messages
from fedaigc_edge.serve.request import EmbeddingRequest, GenerationRequest


class PromptEncoder(Protocol):
    """The part of a Generator that encoding needs."""

    context_length: int
    vocabulary: int

    @property
    def takes_tools(self) -> bool:
        """Whether the model's chat template shows tools to the model."""
        ...

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """The prompt's tokens under the model's chat template."""
        ...

    def encode(self, text: str) -> list[int]:
        """The tokens of plain text."""
        ...


def prompt_tokens(request: GenerationRequest, encoder: PromptEncoder) -> tuple[tuple[int, ...], ...]:
    """The tokens of each prompt of the request; raises RequestInvalid naming the field."""
    if request.messages:
        messages, tools = template_messages(request.messages, request.tools, encoder.takes_tools)
        return (tuple(encoder.encode_chat(messages, tools)),)
    return tuple(_plain(prompt, encoder, "prompt") for prompt in request.prompts)


def input_tokens(request: EmbeddingRequest, encoder: PromptEncoder) -> tuple[tuple[int, ...], ...]:
    """The tokens of each input; raises RequestInvalid naming the field."""
    return tuple(_plain(item, encoder, "input") for item in request.inputs)


def check_token_ids(request: GenerationRequest | EmbeddingRequest, vocabulary: int) -> None:
    """Raise RequestInvalid for a token id that the model does not have."""
    if isinstance(request, EmbeddingRequest):
        listed = {"input": request.inputs}
    else:
        bias = tuple(request.sampling.logit_bias)
        listed = {"prompt": request.prompts, "logit_bias": (bias,)}
    for field, items in listed.items():
        for item in items:
            if not isinstance(item, str) and item and max(item) >= vocabulary:
                raise RequestInvalid(
                    f"The field {field} names a token that this model does not have",
                    f"its vocabulary has {vocabulary} tokens, numbered from 0",
                    "use the model's own tokenizer",
                    field=field,
                )


def _plain(prompt: str | tuple[int, ...], encoder: PromptEncoder, field: str) -> tuple[int, ...]:
    try:
        tokens = tuple(encoder.encode(prompt)) if isinstance(prompt, str) else prompt
    except RequestInvalid as error:
        raise RequestInvalid(error.what, error.why, error.do_next, field=field) from None
    if not tokens:
        raise RequestInvalid(f"The field {field} has nothing in it", "", "send some text", field=field)
    return tokens
