"""How each route that generates reads calls and writes answers."""

from __future__ import annotations

from fedaigc.identifiers import new_request_id
from fedaigc_edge.serve.api_call import Dialect
from fedaigc_edge.serve.chat_reply import ChatForm
from fedaigc_edge.serve.openai_request import read_chat_call

CHAT = Dialect(
    new_request_id,
    read_chat_call,
    lambda call, created: ChatForm(call.request, created, call.include_usage),
)
