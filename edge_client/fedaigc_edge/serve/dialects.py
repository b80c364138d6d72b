"""How each route that generates reads calls and writes answers."""

from __future__ import annotations

import secrets

from fedaigc.identifiers import RequestId, new_request_id
from fedaigc_edge.serve.api_call import Dialect
from fedaigc_edge.serve.chat_reply import ChatForm
from fedaigc_edge.serve.completions_reply import CompletionsForm
from fedaigc_edge.serve.completions_request import read_completions_call
from fedaigc_edge.serve.openai_request import read_chat_call


def new_completion_id() -> RequestId:
    """A fresh name with 96 random bits, in the form that this route's clients expect."""
    return RequestId(f"cmpl-{secrets.token_hex(12)}")


CHAT = Dialect(
    new_request_id,
    read_chat_call,
    lambda call, created: ChatForm(call.request, created, call.include_usage),
    judged="messages",
)
COMPLETIONS = Dialect(
    new_completion_id,
    read_completions_call,
    lambda call, created: CompletionsForm(call.request, created, call.include_usage),
    judged="prompt",
)
