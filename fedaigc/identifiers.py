"""Typed names, so that a round is never passed where a node is wanted."""

from __future__ import annotations

import re
import secrets
from typing import NewType

from fedaigc.errors import VerificationFailed

NodeId = NewType("NodeId", str)
"""A node's random pseudonym, `n-` and 16 hexadecimal digits."""

RoundId = NewType("RoundId", str)
"""One aggregation cycle, `r-` and 16 hexadecimal digits."""

RequestId = NewType("RequestId", str)
"""One generation, `chatcmpl-` and 24 hexadecimal digits, as OpenAI clients expect."""

PolicyVersion = NewType("PolicyVersion", int)
"""A policy's number; 0 is the base model without adapter."""

_NODE = re.compile(r"n-[0-9a-f]{16}")
_ROUND = re.compile(r"r-[0-9a-f]{16}")


def new_node_id() -> NodeId:
    """A fresh pseudonym with 64 random bits."""
    return NodeId(f"n-{secrets.token_hex(8)}")


def new_round_id() -> RoundId:
    """A fresh round name with 64 random bits."""
    return RoundId(f"r-{secrets.token_hex(8)}")


def new_request_id() -> RequestId:
    """A fresh request name with 96 random bits."""
    return RequestId(f"chatcmpl-{secrets.token_hex(12)}")


def node_id(text: str) -> NodeId:
    """Check `text` and return it as a NodeId; raises VerificationFailed."""
    return NodeId(_checked(_NODE, text, "node"))


def round_id(text: str) -> RoundId:
    """Check `text` and return it as a RoundId; raises VerificationFailed."""
    return RoundId(_checked(_ROUND, text, "round"))


def _checked(pattern: re.Pattern[str], text: str, kind: str) -> str:
    if not pattern.fullmatch(text):
        raise VerificationFailed(
            f"Not a {kind} id",
            f"it does not match {pattern.pattern}",
            f"copy it from `fedaigc-server {kind} list`",
        )
    return text
